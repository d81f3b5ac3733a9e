"""The numbers that ``scripts/prepare.sh`` prints and writes to ``prepare.json``. It needs no fairseq."""

import json
from pathlib import Path
from typing import Any, Dict

from ..files import sha256
from ..provenance import versions

RULES = ("too_short", "too_long", "ratio")


def collect(folder: Path) -> Dict[str, Any]:
    """Pairs read and dropped by each rule, tokens and types before and after BPE, vocabulary, versions, hashes."""
    subsets = {path.stem: json.loads(path.read_text()) for path in sorted((folder / "raw").glob("*.json"))}
    info: Dict[str, Any] = {
        "pairs": {name: counts["pairs"] for name, counts in subsets.items()},
        "cleaned": json.loads((folder / "clean.json").read_text()),
        "bpe": json.loads((folder / "bpe.json").read_text()),
        "vocabulary": _vocabulary(folder),
        "binarised": json.loads((folder / "binarize.json").read_text()),
    }
    kept = [folder / "bpecodes", *sorted(folder.glob("bin/dict.*.txt")), *sorted(folder.glob("vocabulary.*"))]
    info["sha256"] = {path.name: sha256(path) for path in [*kept, *sorted((folder / "raw").glob("*.??"))]}
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
