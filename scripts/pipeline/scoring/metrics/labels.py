"""How predicted classes and numbers agree with the true ones, by functions of scikit-learn and SciPy."""

import math
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Sequence

from ...command import Failure
from .base import Metric


@dataclass(frozen=True)
class LabelMetric(Metric):
    """A figure of predicted classes, or with a function of SciPy, of predicted numbers."""

    function: str = ""
    """What computes it, such as ``sklearn.metrics.accuracy_score``."""

    def of(self, predictions: Sequence[str], labels: Sequence[str], positive: str = "") -> float:
        """The figure in percent; a correlation is 0 if one side is all the same.

        Args:
            predictions, labels: classes or numbers, in one order.
            positive: the class that is to be found.
        """
        module, _, name = self.function.rpartition(".")
        try:
            function = getattr(import_module(module), name)
        except ImportError as error:
            raise Failure(f"{error.name} is not installed: EXTRAS=glue scripts/install.sh") from None
        if module == "scipy.stats":
            value = function(*([float(each) for each in side] for side in (labels, predictions)))[0]
        else:
            value = function(labels, predictions, **({"pos_label": positive} if name == "f1_score" else {}))
        return round(100 * float(value), 2) if math.isfinite(value) else 0.0


LABELS = {
    key: LabelMetric(name, f"{reading}, in percent", function=function)
    for key, name, reading, function in (
        ("matthews", "Matthews", "correlation of predicted and true classes", "sklearn.metrics.matthews_corrcoef"),
        ("f1", "F1", "of the positive class", "sklearn.metrics.f1_score"),
        ("accuracy", "accuracy", "predicted classes that are right", "sklearn.metrics.accuracy_score"),
        ("pearson", "Pearson", "correlation of predicted and true numbers", "scipy.stats.pearsonr"),
        ("spearman", "Spearman", "correlation of their ranks", "scipy.stats.spearmanr"),
    )
}
"""By the key in JSON files."""


def signature() -> str:
    """The packages that compute these figures, with their versions."""
    return ", ".join(f"{package} {version(package)}" for package in ("scikit-learn", "scipy"))
