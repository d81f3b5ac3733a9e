"""The numbers that ``scripts/prepare.sh`` prints and writes to ``prepare.json``. It needs no fairseq."""

from pathlib import Path
from typing import Any, Dict, Sequence

from ..files import read_json, sha256
from ..prepared import file_sizes
from ..provenance import versions
from ..text import TEXTS
from ..text.base import Text

RULES = ("too_short", "too_long", "ratio")
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
    subsets = {path.stem: _read(path) for path in sorted((folder / "raw").glob("*.json"))}
    binarised = _read(folder / "binarize.json")
    pairs = len(langs) > 1
    info: Dict[str, Any] = {
        unit: {name: counts[unit] for name, counts in subsets.items()} for unit in (["pairs"] if pairs else TEXT_UNITS)
    }
    info["in_train"] = {name: counts["in_train"] for name, counts in subsets.items() if counts.get("in_train")}
    if pairs:
        info["cleaned"] = _read(folder / "clean.json")
        if "documents" in subsets["train"]:
            info["documents"] = {name: len(counts["documents"]) for name, counts in subsets.items()}
            info["blocks"] = _read(folder / "blocks.json")
    else:
        info["tokens"] = {name: sides[langs[0]]["tokens"] for name, sides in binarised.items()}
    if way.codes:
        info[subwords] = _read(folder / f"{subwords}.json")
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


def _read(path: Path) -> Any:
    return read_json(path, "remove it and run the script again")


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    way, pairs, lines = TEXTS[info["subwords"]], info.get("pairs"), []
    shared = [
        f"{name}: {count:,} of its {'pairs' if pairs else 'documents'} are in the training set, too"
        for name, count in info["in_train"].items()
    ]
    learned = way.describe(info[info["subwords"]]) if way.codes else []
    learned = [*learned[:-1], "; ".join([*learned[-1:], f"vocabulary: {info['vocabulary']:,} types"])]
    if pairs:
        cleaned = info["cleaned"]
        dropped = ", ".join(f"{cleaned[f'dropped_{rule}']:,} {rule.replace('_', ' ')}" for rule in RULES)
        lines.append("pairs: " + ", ".join(f"{name} {count:,}" for name, count in pairs.items()))
        lines += [*shared, f"training pairs kept: {cleaned['kept']:,} (dropped: {dropped})", *learned]
        if "blocks" in info:
            lines.append("documents: " + ", ".join(f"{name} {count:,}" for name, count in info["documents"].items()))
            lines.append("training pairs: " + ", ".join(f"{name} {count:,}" for name, count in info["blocks"].items()))
    for name, sides in info["binarised"].items():
        if pairs:
            tokens = ", ".join(f"{lang} {c['tokens']:,} ({c['unknown']:,} unknown)" for lang, c in sides.items())
            lines.append(f"{way.unit} of {name}: {tokens}")
        else:
            counts = ", ".join(f"{info[unit][name]:,} {unit}" for unit in TEXT_UNITS)
            unknown = sum(side["unknown"] for side in sides.values())
            lines.append(f"{name}: {counts}, {info['tokens'][name]:,} tokens ({unknown:,} unknown)")
    return "\n".join(lines if pairs else [*lines, *shared, *learned])
