"""The result file of a fine-tuning: one task, from one pretrained model."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from ..files import read_json
from ..results.collect import curve_entry, training_entry
from ..results.file import FORMAT, without_folders
from ..training.log import read_log
from .base import FineTuningTask
from .metrics import median, signature
from .pretrained import Pretrained

FOLDERS = {"--run": "RUN", "--data": "DATA", "--out": "OUT", "--results": "RESULTS"}
"""Options that name folders, and what stands for them."""


class Trained(NamedTuple):
    """One training of the grid."""

    folder: Path
    learning_rate: float
    seed: int
    scores: Dict[str, float]


def best_rate(done: Sequence[Trained], metric: str) -> List[Trained]:
    """The trainings with the learning rate that has the best median; of equal ones, the first."""
    rates = list(dict.fromkeys(trained.learning_rate for trained in done))
    groups = [[trained for trained in done if trained.learning_rate == rate] for rate in rates]
    return max(groups, key=lambda group: median([trained.scores[metric] for trained in group]))


def replaces(new: Dict[str, Any], old: Dict[str, Any]) -> bool:
    """Whether a result has all that an older one has: the same model and settings, and each of its trainings."""
    models = [result.get("pretrained", {}).get("checkpoint") for result in (new, old)]
    grids = [{(cell["learning_rate"], cell["seed"]) for cell in result.get("grid", [])} for result in (new, old)]
    same = models[1] in (None, models[0]) and new["settings"] == old["settings"]  # old files do not name the model
    return same and grids[0] >= grids[1]


def make_result(
    args: argparse.Namespace,
    task: FineTuningTask,
    pretrained: Pretrained,
    recipe: str,
    changed: str,
    done: Sequence[Trained],
    data: Dict[str, Dict[str, int]],
    chance: Dict[str, float],
) -> Dict[str, Any]:
    """The content of the result file. Costs and curves are those of the training in the middle of the best rate.

    Args:
        args: the options of ``scripts/finetune.sh``.
        pretrained: the model before fine-tuning.
        changed: the settings of the trainings that are not those of one cell of the grid.
        data: of each set, the number of examples, and how many are shortened.
        chance: the metrics of the most frequent label.
    """
    metric = task.metrics[0]
    best = sorted(best_rate(done, metric), key=lambda trained: trained.scores[metric])
    middle = best[(len(best) - 1) // 2].folder
    log, run = read_log(middle / "train.log", loss="loss"), read_json(middle / "run.json")
    scores = {key: median([trained.scores[key] for trained in best]) for key in task.metrics}
    settings = f"median of {len(best)} seed{'s' if len(best) > 1 else ''}, learning rate {best[0].learning_rate:g}"
    return {
        "format": FORMAT,
        "recipe": f"{recipe}_{task.name}",
        "variant": args.variant,
        "arch": pretrained.arch,
        "seed": pretrained.seed,
        "settings": f"{pretrained.settings}finetune {changed}\n",
        "entries": {},
        "pretrained": pretrained.entry(),
        "run": {**run, "command": without_folders(run["command"], FOLDERS)},
        "training": training_entry(log, 1),
        "data": data,
        "curve": curve_entry(log),
        "grid": [{"learning_rate": trained.learning_rate, "seed": trained.seed, **trained.scores} for trained in done],
        "tests": {
            task.name: {
                "subset": "dev",
                "sentences": data["examples"]["valid"],
                "settings": settings,
                "scores": {key: {"score": score, "signature": signature()} for key, score in scores.items()},
                "chance": chance,
            }
        },
    }
