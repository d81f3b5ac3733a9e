"""How predicted classes and numbers agree with the true ones, by functions of scikit-learn and SciPy."""

import math
from importlib import import_module
from importlib.metadata import version
from typing import Any, Callable, Sequence

from ...command import Failure
from .base import Metric


class LabelMetric(Metric):
    """A figure of predicted labels.

    Args:
        function: what computes it, such as ``sklearn.metrics.accuracy_score``.
    """

    def __init__(self, name: str, reading: str, function: str) -> None:
        super().__init__(name, f"{reading}, in percent")
        self.function = function

    def of(self, predictions: Sequence[str], labels: Sequence[str], positive: str = "") -> float:
        """The figure in percent.

        Args:
            predictions, labels: classes or numbers, in one order.
            positive: the class that is to be found.

        Raises:
            Failure: the package is not installed.
        """
        module, _, name = self.function.rpartition(".")
        try:
            function = getattr(import_module(module), name)
        except ImportError as error:
            raise Failure(f"{error.name} is not installed: EXTRAS=glue scripts/install.sh") from None
        return round(100 * self.share(function, predictions, labels, positive), 2)

    def share(self, function: Callable[..., Any], predictions: Any, labels: Any, positive: str) -> float:
        return float(function(labels, predictions))


class F1(LabelMetric):
    def share(self, function: Callable[..., Any], predictions: Any, labels: Any, positive: str) -> float:
        return float(function(labels, predictions, pos_label=positive))


class Correlation(LabelMetric):
    """Of numbers; 0 if one side is all the same."""

    def share(self, function: Callable[..., Any], predictions: Any, labels: Any, positive: str) -> float:
        value = float(function(*([float(each) for each in side] for side in (predictions, labels)))[0])
        return value if math.isfinite(value) else 0.0


MATTHEWS = "sklearn.metrics.matthews_corrcoef"
LABELS = {
    "matthews": LabelMetric("Matthews", "correlation of predicted and true classes", MATTHEWS),
    "f1": F1("F1", "of the positive class", "sklearn.metrics.f1_score"),
    "accuracy": LabelMetric("accuracy", "predicted classes that are right", "sklearn.metrics.accuracy_score"),
    "pearson": Correlation("Pearson", "correlation of predicted and true numbers", "scipy.stats.pearsonr"),
    "spearman": Correlation("Spearman", "correlation of their ranks", "scipy.stats.spearmanr"),
}
"""By the key in JSON files."""


def signature() -> str:
    """The packages that compute these figures, with their versions."""
    return ", ".join(f"{package} {version(package)}" for package in ("scikit-learn", "scipy"))
