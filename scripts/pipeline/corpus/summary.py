"""The numbers that ``scripts/prepare.sh`` prints and writes to ``prepare.json``. It needs no fairseq."""

from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from ..files import read_json, sha256
from ..prepared import MODELS
from ..provenance import versions

RULES = ("too_short", "too_long", "ratio")
TEXT_UNITS = ("documents", "lines", "bytes")


def collect(folder: Path, langs: Sequence[str], kind: str, split_by: Sequence[Path]) -> Dict[str, Any]:
    """Pairs read and dropped by each rule, tokens and types before and after splitting, vocabulary, versions, hashes.

    Args:
        folder: the prepared data.
        langs: source and target language.
        kind: name of the numbers about subwords, ``bpe`` or ``sentencepiece``.
        split_by: the files that say how text is split.
    """
    subsets = {path.stem: _read(path) for path in sorted((folder / "raw").glob("*.json"))}
    info: Dict[str, Any] = {
        "pairs": {name: counts["pairs"] for name, counts in subsets.items()},
        "in_train": _in_train(subsets),
        "cleaned": _read(folder / "clean.json"),
    }
    return {**info, **_numbers(folder, langs, kind, split_by)}


def collect_text(folder: Path, language: str, kind: str, split_by: Sequence[Path]) -> Dict[str, Any]:
    """The same for text: documents, lines, bytes and tokens of each set. A line end is a byte and a token."""
    subsets = {path.stem: _read(path) for path in sorted((folder / "raw").glob("*.json"))}
    numbers = _numbers(folder, [language], kind, split_by)
    tokens = {name: sides[language]["tokens"] for name, sides in numbers["binarised"].items()}
    counts = {unit: {name: subset[unit] for name, subset in subsets.items()} for unit in TEXT_UNITS}
    return {**counts, "in_train": _in_train(subsets), "tokens": tokens, **numbers}


def _in_train(subsets: Mapping[str, Mapping[str, int]]) -> Dict[str, int]:
    """The sets that share text with the training set, and how much."""
    return {name: counts["in_train"] for name, counts in subsets.items() if counts.get("in_train")}


def _numbers(folder: Path, langs: Sequence[str], kind: str, split_by: Sequence[Path]) -> Dict[str, Any]:
    """Numbers about subwords and tokens, hashes and versions."""
    learned = folder / f"{kind}.json"
    info: Dict[str, Any] = {
        **({kind: _read(learned)} if kind in MODELS else {}),
        "vocabulary": _vocabulary(folder),
        "binarised": _read(folder / "binarize.json"),
    }
    raw = sorted(path for path in (folder / "raw").iterdir() if path.name.split(".")[-1] in langs)
    kept = [*split_by[:1], *sorted(folder.glob("bin/dict*.txt")), *split_by[1:]]
    info["sha256"] = {path.name: sha256(path) for path in [*kept, *raw]}
    info["versions"] = versions()
    return info


def _read(path: Path) -> Any:
    return read_json(path, "remove it and run the script again")


def _vocabulary(folder: Path) -> int:
    """Types of the joined dictionary, without fairseq's four special symbols."""
    with next((folder / "bin").glob("dict*.txt")).open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    pairs, cleaned = info["pairs"], info["cleaned"]
    dropped = ", ".join(f"{cleaned[f'dropped_{rule}']:,} {rule.replace('_', ' ')}" for rule in RULES)
    lines = [
        "pairs: " + ", ".join(f"{name} {count:,}" for name, count in pairs.items()),
        *_shared(info["in_train"], "pairs"),
        f"training pairs kept: {cleaned['kept']:,} (dropped: {dropped})",
        *_learned(info),
    ]
    unit = "BPE tokens" if "bpe" in info else "pieces"
    for name, sides in info["binarised"].items():
        tokens = ", ".join(f"{lang} {c['tokens']:,} ({c['unknown']:,} unknown)" for lang, c in sides.items())
        lines.append(f"{unit} of {name}: {tokens}")
    return "\n".join(lines)


def text_summary(info: Dict[str, Any]) -> str:
    """The same for text."""
    lines = []
    for name, sides in info["binarised"].items():
        counts = ", ".join(f"{info[unit][name]:,} {unit}" for unit in TEXT_UNITS)
        unknown = sum(side["unknown"] for side in sides.values())
        lines.append(f"{name}: {counts}, {info['tokens'][name]:,} tokens ({unknown:,} unknown)")
    return "\n".join([*lines, *_shared(info["in_train"], "documents"), *_learned(info)])


def _shared(in_train: Mapping[str, int], unit: str) -> List[str]:
    return [f"{name}: {count:,} of its {unit} are in the training set, too" for name, count in in_train.items()]


def _learned(info: Dict[str, Any]) -> List[str]:
    """What was learned, and the size of the vocabulary."""
    kinds = {"bpe": _bpe, "sentencepiece": _sentencepiece}
    lines = [line for kind, lines_of in kinds.items() if kind in info for line in lines_of(info[kind])]
    size = f"vocabulary: {info['vocabulary']:,} types"
    return [*lines[:-1], f"{lines[-1]}; {size}"] if lines else [size]


def _bpe(bpe: Dict[str, Any]) -> List[str]:
    words = ", ".join(
        f"{name} {counts['tokens']:,} ({counts['types']:,} types)" for name, counts in bpe["words"].items()
    )
    return [f"words: {words}; together {bpe['types']:,} types", f"BPE merges: {bpe['merges']:,}"]


def _sentencepiece(learned: Dict[str, Any]) -> List[str]:
    covered = "all" if learned["coverage"] == 1 else f"those of {learned['coverage']:.2%} of the text"
    characters = f"characters: {learned['characters']:,}, of which {covered} are pieces"
    return [characters, f"pieces of SentencePiece: {learned['pieces']:,}"]
