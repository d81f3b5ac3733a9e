"""How predicted classes and numbers agree with the true ones, by functions of scikit-learn and SciPy."""

import math
from importlib import import_module
from importlib.metadata import version
from typing import Sequence

from ...command import Failure
from .base import Metric


class LabelMetric(Metric):
    """A figure of predicted classes, or with a function of SciPy, of predicted numbers.

    Args:
        function: what computes it, such as ``sklearn.metrics.accuracy_score``.
    """

    def __init__(self, name: str, reading: str, function: str) -> None:
        super().__init__(name, f"{reading}, in percent")
        self.module, _, self.function = function.rpartition(".")

    def of(self, predictions: Sequence[str], labels: Sequence[str], positive: str = "") -> float:
        """The figure in percent; a correlation is 0 if one side is all the same.

        Args:
            predictions, labels: classes or numbers, in one order.
            positive: the class that is to be found.

        Raises:
            Failure: the package is not installed.
        """
        try:
            function = getattr(import_module(self.module), self.function)
        except ImportError as error:
            raise Failure(f"{error.name} is not installed: EXTRAS=glue scripts/install.sh") from None
        if self.module == "scipy.stats":
            value = function(*([float(each) for each in side] for side in (labels, predictions)))[0]
        else:
            value = function(labels, predictions, **({"pos_label": positive} if self.function == "f1_score" else {}))
        return round(100 * float(value), 2) if math.isfinite(value) else 0.0


MATTHEWS = "sklearn.metrics.matthews_corrcoef"
LABELS = {
    "matthews": LabelMetric("Matthews", "correlation of predicted and true classes", MATTHEWS),
    "f1": LabelMetric("F1", "of the positive class", "sklearn.metrics.f1_score"),
    "accuracy": LabelMetric("accuracy", "predicted classes that are right", "sklearn.metrics.accuracy_score"),
    "pearson": LabelMetric("Pearson", "correlation of predicted and true numbers", "scipy.stats.pearsonr"),
    "spearman": LabelMetric("Spearman", "correlation of their ranks", "scipy.stats.spearmanr"),
}
"""By the key in JSON files."""


def signature() -> str:
    """The packages that compute these figures, with their versions."""
    return ", ".join(f"{package} {version(package)}" for package in ("scikit-learn", "scipy"))
