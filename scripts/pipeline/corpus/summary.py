"""The numbers that ``scripts/prepare.sh`` prints and writes to ``prepare.json``. It needs no fairseq."""

from pathlib import Path
from typing import Any, Dict, Sequence

from ..files import read_json, sha256
from ..prepared import file_sizes
from ..provenance import versions
from ..text.base import Text

TEXT_UNITS = ("documents", "lines", "bytes")


def collect(folder: Path, langs: Sequence[str], subwords: str, way: Text) -> Dict[str, Any]:
    """Sizes of the sets, what cleaning dropped, tokens and types before and after splitting, versions, hashes.

    For text: documents, lines, bytes and tokens of each set. A line end is a byte and a token.

    Args:
        folder: the prepared data.
        langs: source and target language, or the language of text.
        subwords: the name of ``way``.
        way: how the text was split.
    """
    subsets = {path.stem: read_json(path) for path in sorted((folder / "raw").glob("*.json"))}
    binarised = read_json(folder / "binarize.json")
    pairs = len(langs) > 1
    info: Dict[str, Any] = {
        unit: {name: counts[unit] for name, counts in subsets.items()} for unit in (["pairs"] if pairs else TEXT_UNITS)
    }
    info["in_train"] = {name: counts["in_train"] for name, counts in subsets.items() if counts.get("in_train")}
    if pairs:
        info["cleaned"] = read_json(folder / "clean.json")
        if "documents" in subsets["train"]:
            info["documents"] = {name: len(counts["documents"]) for name, counts in subsets.items()}
            info["blocks"] = read_json(folder / "blocks.json")
    else:
        info["tokens"] = {name: sides[langs[0]]["tokens"] for name, sides in binarised.items()}
    if way.codes:
        info[subwords] = read_json(folder / f"{subwords}.json")
    dictionaries = sorted(folder.glob("bin/dict*.txt"))
    with dictionaries[0].open(encoding="utf-8") as lines:
        info["vocabulary"] = sum(1 for _ in lines)  # without fairseq's four special symbols
    info["binarised"] = binarised
    raw = sorted(path for path in (folder / "raw").iterdir() if path.name.split(".")[-1] in langs)
    learned = [folder / name for name in way.files(langs)]
    info["sha256"] = {path.name: sha256(path) for path in [*learned[:1], *dictionaries, *learned[1:], *raw]}
    info["file_sizes"] = file_sizes(folder)
    info["versions"] = versions()
    return info


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    lines = [f"{unit}: {_listed(info[unit])}" for unit in ("pairs", *TEXT_UNITS) if unit in info]
    unit = "pairs" if "pairs" in info else "documents"
    lines += [f"{name}: {n:,} of its {unit} are in the training set, too" for name, n in info["in_train"].items()]
    if cleaned := info.get("cleaned"):
        dropped = {name.removeprefix("dropped_"): n for name, n in cleaned.items() if name.startswith("dropped_")}
        lines.append(f"training pairs kept: {cleaned['kept']:,} of {cleaned['pairs']:,} (dropped: {_listed(dropped)})")
    if "blocks" in info:
        lines.append(f"training blocks: {_listed(info['blocks'])}")
    learned = {**info.get(info["subwords"], {}), "vocabulary": info["vocabulary"]}
    lines.append(_listed({name: number for name, number in learned.items() if isinstance(number, (int, float))}))
    for name, sides in info["binarised"].items():
        tokens = ", ".join(f"{lang} {n['tokens']:,} ({n['unknown']:,} unknown)" for lang, n in sides.items())
        lines.append(f"tokens of {name}: {tokens}")
    return "\n".join(lines)


def _listed(counts: Dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
