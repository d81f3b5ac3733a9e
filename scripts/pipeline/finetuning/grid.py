"""The grid of a fine-tuning: its trainings, and the learning rate that counts."""

import statistics
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from ..results.file import Result


class Trained(NamedTuple):
    """One training of the grid."""

    folder: Path
    learning_rate: float
    seed: int
    scores: Dict[str, float]

    @property
    def cell(self) -> Dict[str, float]:
        """What a result file says of it."""
        return {"learning_rate": self.learning_rate, "seed": self.seed, **self.scores}


def median(done: Sequence[Trained], metric: str) -> float:
    """The median over seeds."""
    return round(statistics.median(trained.scores[metric] for trained in done), 2)


def best_rate(done: Sequence[Trained], metric: str) -> List[Trained]:
    """The trainings with the learning rate that has the best median; of equal ones, the first. The best comes last."""
    rates = dict.fromkeys(trained.learning_rate for trained in done)
    groups = [[trained for trained in done if trained.learning_rate == rate] for rate in rates]
    best = max(groups, key=lambda group: median(group, metric))
    return sorted(best, key=lambda trained: trained.scores[metric])


def replaces(new: Dict[str, Any], old: Result) -> bool:
    """Whether a result has all that an older one has: the same model and settings, and each of its trainings."""
    models = [pretrained.get("checkpoint") for pretrained in (new.get("pretrained", {}), old.pretrained)]
    grids = [{(cell["learning_rate"], cell["seed"]) for cell in grid} for grid in (new["grid"], old.grid)]
    same = models[1] in (None, models[0]) and new["settings"] == old.settings  # old files do not name the model
    return same and grids[0] >= grids[1]
