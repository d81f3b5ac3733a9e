"""The metrics of fine-tuning in percent, from predictions and labels. It needs no fairseq."""

import math
import statistics
from importlib.metadata import version
from typing import Any, Callable, Dict, List, Sequence

from ..command import Failure
from .base import FineTuningTask


def evaluate(task: FineTuningTask, predictions: Sequence[str], labels: Sequence[str]) -> Dict[str, float]:
    """The metrics of a task. A correlation with predictions that are all the same is 0.

    Args:
        predictions, labels: classes or numbers, in one order.

    Raises:
        Failure: scikit-learn or SciPy is not installed.
    """
    functions = _functions()
    positive = task.labels[-1] if task.labels else None
    return {key: round(100 * functions[key](predictions, labels, positive), 2) for key in task.metrics}


def most_frequent(task: FineTuningTask, training: Sequence[str], labels: Sequence[str]) -> Dict[str, float]:
    """The metrics of a model that always answers with the most frequent label of the training set."""
    return evaluate(task, [statistics.mode(training)] * len(labels), labels)


def _functions() -> Dict[str, Callable[[Sequence[str], Sequence[str], Any], float]]:
    try:
        from scipy import stats
        from sklearn import metrics
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: EXTRAS=glue scripts/install.sh") from None

    def correlation(function: Any) -> Callable[[Sequence[str], Sequence[str], Any], float]:
        def compute(predictions: Sequence[str], labels: Sequence[str], _: Any) -> float:
            sides: List[List[float]] = [[float(value) for value in side] for side in (predictions, labels)]
            value = float(function(*sides)[0]) if min(len(set(side)) for side in sides) > 1 else 0.0
            return value if math.isfinite(value) else 0.0

        return compute

    return {
        "matthews": lambda predictions, labels, _: float(metrics.matthews_corrcoef(labels, predictions)),
        "f1": lambda predictions, labels, positive: float(metrics.f1_score(labels, predictions, pos_label=positive)),
        "accuracy": lambda predictions, labels, _: float(metrics.accuracy_score(labels, predictions)),
        "pearson": correlation(stats.pearsonr),
        "spearman": correlation(stats.spearmanr),
    }


def signature() -> str:
    """The packages that compute the metrics, with their versions."""
    return ", ".join(f"{package} {version(package)}" for package in ("scikit-learn", "scipy"))


def median(values: Sequence[float]) -> float:
    """The median over seeds."""
    return round(statistics.median(values), 2)
