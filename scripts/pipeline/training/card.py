"""The card of a model folder: what the model is, how it was made, what it was tested on, and its limits."""

from pathlib import Path
from typing import Any, Dict, List

from ..files import read_json, sha256
from ..prepared import NAME, read_prepared
from ..provenance import read_record

DATA = ("documents", "pairs", "lines")
"""Entries of ``prepare.json`` that say how much text there is in each set."""


def model_card(run: Path, checkpoints: int) -> str:
    """The text of ``RUN/README.md``.

    Args:
        run: a model folder that is complete but for this file.
        checkpoints: how many were averaged.
    """
    record, prepared = read_record(run), read_prepared(run, "run scripts/average.sh again")
    info: Dict[str, Any] = read_json(run / NAME)
    languages = prepared.source if prepared.is_text else f"{prepared.source} to {prepared.target}"
    amounts = [f"{info[unit]['train']:,} {unit}" for unit in DATA if "train" in info.get(unit, {})]
    use = f"scripts/evaluate.sh --run {run.name} --data DATA"
    if not prepared.is_text:
        documents = " --documents" if prepared.document_tokens else ""
        use = f'echo "..." | scripts/translate.sh {run.name}{documents}'
    tests = "; ".join(_scores(run, prepared.sets)) or "not scored yet; after that, run scripts/average.sh again"
    versions = ", ".join(f"{package} {version}" for package, version in record.versions.items())
    lines = [
        f"# {record.arch}, {languages}",
        "",
        f"Use: `{use}`",
        "",
        f"- Data: {', '.join(amounts)} for training; {prepared.subwords}; {info.get('vocabulary', 0):,} types",
        f"- Training: the average of {checkpoints} checkpoints; `{record.flags}`",
        *([f"- Began with: {record.start}"] if record.start else []),
        f"- Tests: {tests}",
        f"- Limits: one training, with seed {record.seed}; not tested on other kinds of text than those above",
        f"- Made with: commit {record.commit}; {versions}; {record.machine}",
    ]
    return "\n".join(lines) + "\n"


def _scores(run: Path, sets: Dict[str, str]) -> List[str]:
    """The figures of each test set of the present checkpoint, as far as they are there."""
    found, checkpoint = [], sha256(run / "checkpoint.pt")
    for path in sorted(run.glob("scores/*.json")):
        scored = read_json(path, "remove it and run scripts/score.sh again")
        if scored.get("checkpoint") != checkpoint:
            continue
        figures = ", ".join(f"{key} {entry['score']}" for key, entry in scored["scores"].items())
        found.append(f"{sets.get(path.stem) or path.stem} ({scored['settings']}): {figures}")
    return found
