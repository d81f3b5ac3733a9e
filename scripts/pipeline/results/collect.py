"""Collects one run (one architecture, one seed, one recipe) in one small result file. It needs no fairseq.

The scripts have trained, averaged and scored the run. The result has everything that the report needs: scores with
signatures, sacrebleu's statistics of each sentence, learning curves, costs, command, commit and versions. For an
unfinished run it has the available parts and the reason, but no scores.
"""

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..command import Failure
from ..files import read_shaped, sha256
from ..scoring.scored import BLEU, read_scored
from ..shape import COMMAND, NUMBER, SEED, TEXT
from ..steps import read_stamp
from ..training.log import Point, TrainLog, read_log, thinned
from .file import FORMAT, RUN, TEXT_COUNTS, inconsistency, without_folders

PLACES = {"--data": "DATA", "--out": "RUN"}
PREPARED = {**dict.fromkeys(("--train", "--valid", "--test", "--binarized", "--codes"), "RAW/{name}"), "--out": "DATA"}
"""Options of train.sh and prepare.sh that name files, and what stands for them."""

PREPARE = {
    **{f"{unit}?": {"*": NUMBER} for unit in TEXT_COUNTS},
    **{"pairs?": {"*": NUMBER}, "cleaned?": {"kept?": NUMBER}, "bpe?": {"merges?": NUMBER}},
    **{"vocabulary?": NUMBER, "command?": COMMAND},
}
"""Entries of ``prepare.json`` that are read."""

POINTS = 150
"""The largest number of points in a training curve."""


def collect(
    run: Path,
    data: Path,
    recipe: str,
    subsets: Mapping[str, str],
    variant: str = "",
    unfinished: str = "",
    search: str = "",
    metric: str = BLEU,
    positions: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """The content of the result file of a run.

    Args:
        run: output of train.sh, average.sh and score.sh.
        data: output of prepare.sh, the training data.
        recipe: name of the recipe.
        subsets: fairseq's name of each test set (``test``, ``test1``) and of the validation set (``valid``), to its
            real name.
        variant: tells the run from others of the same architecture.
        unfinished: the reason why the run has no scores; empty if it has.
        search: the settings with which all test sets were scored, as score.sh writes them; any if it is empty.
        metric: a figure that each test set has; BLEU comes with statistics.
        positions: what :func:`.positions.positions_of` says of the model.

    Raises:
        Failure: an output is missing or damaged, or a run that should be unfinished is finished.
    """
    if not subsets or len(set(subsets.values())) < len(subsets):
        raise Failure(f"each test set needs a name of its own, not {dict(subsets)}")
    if unfinished and not unfinished.strip():
        raise Failure("a run that did not finish needs a reason")
    info = read_shaped(
        run / "run.json",
        {**RUN, "command": COMMAND, "arch": TEXT, "seed": SEED},
        f"run scripts/train.sh --out {run} first",
    )
    if unfinished:
        log, averaged, tests = _unfinished_parts(run, subsets)
    else:
        log, averaged, tests = _finished_parts(run, data, subsets, search, metric)
    settings = run / "settings"
    info["command"] = without_folders(info["command"], PLACES)
    return {
        "format": FORMAT,
        "recipe": recipe,
        "variant": variant,
        "arch": info["arch"],
        "seed": int(info["seed"]),
        "settings": settings.read_text() if settings.is_file() else "",
        "entries": {},
        **({"unfinished": _reason(unfinished, run, data)} if unfinished else {}),
        "run": info,
        "training": training_entry(log, averaged),
        "data": _data(data),
        "curve": curve_entry(log),
        **({"positions": dict(positions)} if positions else {}),
        "tests": tests,
    }


def training_entry(log: TrainLog, averaged: int) -> Dict[str, Any]:
    """The settings and the costs of the training."""
    return {
        "parameters": log.parameters,
        "parameters_trained": log.trained,
        "updates": log.updates,
        "target_tokens": log.tokens,
        "target_tokens_per_update": round(log.tokens / log.updates, 1) if log.updates else None,
        "seconds": round(log.seconds),
        "target_tokens_per_second": round(log.rate) or None,
        **({"rate": "median"} if any(point.rate for point in log.train) else {}),
        "processes": log.processes,
        "devices": log.devices,
        "averaged": averaged,
    }


def _finished_parts(
    run: Path, data: Path, subsets: Mapping[str, str], search: str, metric: str
) -> Tuple[TrainLog, int, Dict[str, Any]]:
    """Log, number of averaged checkpoints and tests of a finished run."""
    log_path = run / "train.log"
    if not log_path.is_file() or not read_stamp(run, "train"):
        raise Failure(f"{run} is not trained to the end: run scripts/train.sh --out {run} first")
    tests = {name: _test(run, data, subset, search, metric) for subset, name in subsets.items()}
    return read_log(log_path), _averaged(run), tests


def _unfinished_parts(run: Path, subsets: Mapping[str, str]) -> Tuple[TrainLog, int, Dict[str, Any]]:
    """The same for a run that did not finish: a log, which may be empty, and no tests."""
    steps = [read_stamp(run, "train"), read_stamp(run, "average")]
    if all(steps) and all((run / f"scores/{subset}.json").is_file() for subset in subsets):
        raise Failure(f"{run} is trained, averaged and scored: it is not unfinished")
    path = run / "train.log"
    log = read_log(path, may_be_empty=True) if path.is_file() else TrainLog()
    return log, _averaged(run) if steps[1] else 0, {}


def _reason(text: str, run: Path, data: Path) -> str:
    """The reason on one line, without the folders of this machine."""
    return " ".join(text.replace(str(run), "RUN").replace(str(data), "DATA").split())


def _averaged(run: Path) -> int:
    """How many checkpoints were averaged, from the stamp of average.sh."""
    averaged = read_stamp(run, "average").get("averaged")
    if not isinstance(averaged, int):
        raise Failure(f"{run} is not averaged: run scripts/average.sh --run {run} --data DATA first")
    return averaged


def _data(folder: Path) -> Dict[str, Any]:
    """Pairs, cleaning, merges and vocabulary from ``prepare.json``; empty if prepare.sh was older."""
    path = folder / "prepare.json"
    if not path.is_file():
        return {}
    info = read_shaped(path, PREPARE, f"prepare {folder} again")
    pairs = info.get("pairs", {})
    return {
        **{unit: info[unit] for unit in TEXT_COUNTS if unit in info},
        "pairs": {name: pairs.get(name) for name in ("train", "valid")},
        "kept": info.get("cleaned", {}).get("kept"),
        "merges": info.get("bpe", {}).get("merges"),
        "vocabulary": info.get("vocabulary"),
        "command": without_folders(info.get("command", ""), PREPARED),
    }


def curve_entry(log: TrainLog) -> Dict[str, Any]:
    """The learning curves."""
    return {"train": _curve(thinned(log.train, POINTS)), "valid": _curve(thinned(log.valid, len(log.valid) or 1))}


def _curve(points: List[Point]) -> Dict[str, List[float]]:
    return {
        "updates": [point.updates for point in points],
        "seconds": [round(point.seconds) for point in points],
        "nll": [round(point.nll, 4) for point in points],
    }


def _test(run: Path, data: Path, subset: str, search: str, metric: str) -> Dict[str, Any]:
    """Scores of one test set, and statistics if there are any, as score.sh or evaluate.sh wrote them."""
    path = run / f"scores/{subset}.json"
    script = "score.sh" if metric == BLEU else "evaluate.sh"
    remedy = f"run scripts/{script} --run {run} --data {data} --subset {subset} first"
    scored = read_scored(path, remedy, metric)
    checkpoint = run / "checkpoint.pt"
    if checkpoint.is_file() and scored.get("checkpoint") != sha256(checkpoint):
        raise Failure(f"{path} is of another checkpoint than {checkpoint}: {remedy}")
    if search and scored["settings"] != search:
        raise Failure(f"{path} was scored with {scored['settings']}, not with {search}: {remedy}")
    if reason := inconsistency(scored):
        raise Failure(f"{path} {reason}: {remedy}")
    keys = ("sentences", "settings", "scores", *(["statistics"] if metric == BLEU else []))
    return {"subset": subset, **{key: scored[key] for key in keys}}
