"""What ``scripts/prepare.sh`` made, in numbers: printed, and kept as ``prepare.json``. It needs no fairseq.

::

    prepare_info.py FOLDER [KEY=VALUE ...]
"""

import argparse
from pathlib import Path
from typing import Any, Dict

from ..files import read_json, sha256, write_json
from ..provenance import versions

RULES = ("too_short", "too_long", "ratio")


def collect(folder: Path) -> Dict[str, Any]:
    """Pairs read and dropped by which rule, tokens and types before and after BPE, vocabulary, versions, hashes."""
    subsets = {path.stem: read_json(path) for path in sorted((folder / "raw").glob("*.json"))}
    info: Dict[str, Any] = {
        "pairs": {name: counts["pairs"] for name, counts in subsets.items()},
        "cleaned": read_json(folder / "clean.json"),
        "bpe": read_json(folder / "bpe.json"),
        "vocabulary": _vocabulary(folder),
        "binarised": read_json(folder / "binarize.json"),
    }
    info["sha256"] = {path.name: sha256(path) for path in [folder / "bpecodes", *sorted((folder / "raw").glob("*.??"))]}
    info["versions"] = versions()
    return info


def _vocabulary(folder: Path) -> int:
    """Types of the joined dictionary, without fairseq's four special symbols."""
    with next((folder / "bin").glob("dict.*.txt")).open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    pairs, cleaned, bpe = info["pairs"], info["cleaned"], info["bpe"]
    dropped = ", ".join(f"{cleaned[f'dropped_{rule}']:,} {rule.replace('_', ' ')}" for rule in RULES)
    words = ", ".join(
        f"{name} {counts['tokens']:,} ({counts['types']:,} types)" for name, counts in bpe["words"].items()
    )
    lines = [
        "pairs: " + ", ".join(f"{name} {count:,}" for name, count in pairs.items()),
        f"training pairs kept: {cleaned['kept']:,} (dropped: {dropped})",
        f"words: {words}; together {bpe['types']:,} types",
        f"BPE merges: {bpe['merges']:,}; vocabulary: {info['vocabulary']:,} types",
    ]
    for name, sides in info["binarised"].items():
        tokens = ", ".join(f"{lang} {c['tokens']:,} ({c['unknown']:,} unknown)" for lang, c in sides.items())
        lines.append(f"BPE tokens of {name}: {tokens}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("entries", nargs="*", metavar="KEY=VALUE", help="further entries")
    args = parser.parse_args()
    info = {**dict(entry.split("=", 1) for entry in args.entries), **collect(args.folder)}
    write_json(args.folder / "prepare.json", info)
    print(summary(info))


if __name__ == "__main__":
    main()
