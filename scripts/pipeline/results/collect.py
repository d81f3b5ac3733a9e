"""Collects one run (one architecture, one seed, one recipe) in one small result file. It needs no fairseq.

The result has everything that the report needs: scores with signatures, sacrebleu's statistics of each sentence,
learning curves, costs, command, commit and versions.
"""

from pathlib import Path
from typing import Any, Dict, List, Mapping

from ..files import read_json, read_lines, write_text
from ..scoring.scored import BLEU, read_scored
from ..steps import read_stamp
from ..training.log import Point, TrainLog, read_log, thinned
from .file import FORMAT, without_folders

PLACES = {"--data": "DATA", "--out": "RUN", "--from": "FROM", "--run": "RUN", "--results": "RESULTS"}
PREPARED = {**dict.fromkeys(("--train", "--valid", "--test", "--binarized", "--codes"), "RAW/{name}"), "--out": "DATA"}
"""Options of train.sh and finetune.sh, and of prepare.sh, that name files, and what stands for them."""

POINTS = 150
"""The largest number of points in a training curve."""

TRANSLATIONS = 5


def collect(
    run: Path,
    data: Path,
    recipe: str,
    subsets: Mapping[str, str],
    variant: str = "",
    unfinished: str = "",
    metric: str = BLEU,
    loss: str = "nll_loss",
) -> Dict[str, Any]:
    """The content of the result file of a run; without scores if it did not finish.

    Args:
        run: output of train.sh, average.sh and score.sh.
        data: output of prepare.sh, the training data.
        recipe: name of the recipe.
        subsets: fairseq's name of each test set (``test``, ``test1``) and of the validation set, to its real name.
        variant: tells the run from others of the same architecture.
        unfinished: the reason why the run has no scores; empty if it has.
        metric: a figure that each test set has; BLEU comes with statistics.
        loss: of the curves, as :func:`..training.log.read_log` takes it.

    Raises:
        Failure: an output is missing or damaged.
    """
    log, info = run / "train.log", read_json(run / "run.json", f"run scripts/train.sh --out {run} first")
    trained = read_log(log, bool(unfinished), loss) if log.is_file() else TrainLog()
    reason = " ".join(unfinished.replace(str(run), "RUN").replace(str(data), "DATA").split())
    return {
        "format": FORMAT,
        "recipe": recipe,
        "variant": variant,
        "arch": info["arch"],
        "seed": int(info["seed"]),
        "settings": (run / "settings").read_text() if (run / "settings").is_file() else "",
        **({"unfinished": reason} if reason else {}),
        "run": {**info, "command": without_folders(info["command"], PLACES)},
        "training": _training(trained, read_stamp(run, "average").get("averaged", 0)),
        "data": _data(data / "prepare.json"),
        "curve": {
            "train": _curve(thinned(trained.train, POINTS)),
            "valid": _curve(thinned(trained.valid, len(trained.valid) or 1)),
        },
        "tests": {} if unfinished else {name: _test(run, subset, metric) for subset, name in subsets.items()},
    }


def _training(log: TrainLog, averaged: int) -> Dict[str, Any]:
    """The settings and the costs of the training."""
    return {
        "parameters": log.parameters,
        "updates": log.updates,
        "target_tokens": log.tokens,
        "target_tokens_per_update": round(log.tokens / log.updates, 1) if log.updates else None,
        "target_tokens_per_second": round(log.rate) or None,
        "devices": log.devices,
        "averaged": averaged,
    }


def _curve(points: List[Point]) -> Dict[str, List[float]]:
    return {
        "updates": [point.updates for point in points],
        "nll": [round(point.nll, 4) for point in points],
    }


def _data(path: Path) -> Dict[str, Any]:
    """What ``prepare.json`` says of the data; empty if prepare.sh was older."""
    info = read_json(path) if path.is_file() else {}
    return info and {
        **{unit: info[unit] for unit in ("documents", "bytes", "tokens") if unit in info},
        "pairs": {name: info.get("pairs", {}).get(name) for name in ("train", "valid")},
        "kept": info.get("cleaned", {}).get("kept"),
        "merges": info.get("bpe", {}).get("merges"),
        "vocabulary": info.get("vocabulary"),
        "command": without_folders(info.get("command", ""), PREPARED),
    }


def _test(run: Path, subset: str, metric: str) -> Dict[str, Any]:
    """A test set, as score.sh or evaluate.sh left it."""
    scored = read_scored(run / f"scores/{subset}.json", "remove it and call again", metric)
    more = {"commit": scored.commit, "statistics": scored.statistics}
    return {
        "subset": subset,
        "sentences": scored.sentences,
        "settings": scored.settings,
        "scores": scored.scores,
        **{name: value for name, value in more.items() if value},
    }


def translations(run: Path, data: Path, subset: str) -> List[List[str]]:
    """Sources, translations and references of a few sentences of a test set, evenly spaced; empty without the files."""
    for output in run.glob(f"scores/{subset}.hyp.*"):
        raw = {file.suffix: file for file in (data / "raw").glob(f"{subset}.*") if file.suffix != ".json"}
        reference = raw.pop(output.suffix, None)
        if reference and raw:
            rows = [list(row) for row in zip(*map(read_lines, (*raw.values(), output, reference)))]
            return [rows[i * len(rows) // TRANSLATIONS] for i in range(min(TRANSLATIONS, len(rows)))]
    return []


def write_translations(rows: List[List[str]], path: Path) -> None:
    """Writes :func:`translations` as a table with tabs; the report shows it if it lies beside the result file."""
    cells = [["source", "translation", "reference"], *rows]
    write_text(path, "".join("\t".join(cell.replace("\t", " ") for cell in row) + "\n" for row in cells))
