"""The numbers that ``scripts/prepare.sh`` prints and writes to ``prepare.json``. It needs no fairseq."""

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..files import sha256
from ..provenance import versions

RULES = ("too_short", "too_long", "ratio")


def collect(folder: Path, langs: Sequence[str], kind: str, split_by: Sequence[Path]) -> Dict[str, Any]:
    """Pairs read and dropped by each rule, tokens and types before and after splitting, vocabulary, versions, hashes.

    Args:
        folder: the prepared data.
        langs: source and target language.
        kind: name of the numbers about subwords, ``bpe`` or ``sentencepiece``.
        split_by: the files that say how text is split.
    """
    subsets = {path.stem: json.loads(path.read_text()) for path in sorted((folder / "raw").glob("*.json"))}
    info: Dict[str, Any] = {
        "pairs": {name: counts["pairs"] for name, counts in subsets.items()},
        "cleaned": json.loads((folder / "clean.json").read_text()),
        kind: json.loads((folder / f"{kind}.json").read_text()),
        "vocabulary": _vocabulary(folder),
        "binarised": json.loads((folder / "binarize.json").read_text()),
    }
    raw = sorted(path for path in (folder / "raw").iterdir() if path.name.split(".")[-1] in langs)
    model, *vocabularies = split_by
    kept = [model, *sorted(folder.glob("bin/dict.*.txt")), *vocabularies]
    info["sha256"] = {path.name: sha256(path) for path in [*kept, *raw]}
    info["versions"] = versions()
    return info


def _vocabulary(folder: Path) -> int:
    """Types of the joined dictionary, without fairseq's four special symbols."""
    with next((folder / "bin").glob("dict.*.txt")).open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    pairs, cleaned = info["pairs"], info["cleaned"]
    dropped = ", ".join(f"{cleaned[f'dropped_{rule}']:,} {rule.replace('_', ' ')}" for rule in RULES)
    lines = [
        "pairs: " + ", ".join(f"{name} {count:,}" for name, count in pairs.items()),
        f"training pairs kept: {cleaned['kept']:,} (dropped: {dropped})",
        *(_bpe(info["bpe"]) if "bpe" in info else _sentencepiece(info["sentencepiece"])),
    ]
    lines[-1] += f"; vocabulary: {info['vocabulary']:,} types"
    unit = "BPE tokens" if "bpe" in info else "pieces"
    for name, sides in info["binarised"].items():
        tokens = ", ".join(f"{lang} {c['tokens']:,} ({c['unknown']:,} unknown)" for lang, c in sides.items())
        lines.append(f"{unit} of {name}: {tokens}")
    return "\n".join(lines)


def _bpe(bpe: Dict[str, Any]) -> List[str]:
    words = ", ".join(
        f"{name} {counts['tokens']:,} ({counts['types']:,} types)" for name, counts in bpe["words"].items()
    )
    return [f"words: {words}; together {bpe['types']:,} types", f"BPE merges: {bpe['merges']:,}"]


def _sentencepiece(learned: Dict[str, Any]) -> List[str]:
    covered = "all" if learned["coverage"] == 1 else f"those of {learned['coverage']:.2%} of the text"
    characters = f"characters: {learned['characters']:,}, of which {covered} are pieces"
    return [characters, f"pieces of SentencePiece: {learned['pieces']:,}"]
