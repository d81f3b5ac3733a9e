"""What a metric is: its name, how to read it, which score is the best, and for translations how to compute it."""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple


class Texts(NamedTuple):
    """A test set and its translation, line by line: sentences, or whole documents."""

    sources: Sequence[str]
    hypotheses: Sequence[str]
    references: Sequence[str]
    lang: str
    """The target language."""
    documents: Optional[Sequence[Sequence[Tuple[List[str], List[str]]]]] = None
    """Of documents that were translated in blocks: for each block the segments of hypothesis and reference. Then the
    other fields have a line for each document."""


Entry = Dict[str, Any]
"""``score``, ``signature`` (empty without sacreBLEU) and ``detail``, a line for a person."""


@dataclass(frozen=True)
class Metric:
    """One figure of a test set."""

    name: str
    """In tables."""
    reading: str
    """How to read it, for the legend."""
    score: Callable[[Texts], Optional[Entry]] = lambda texts: None
    """Of a translation; None if this is no metric of translations, or not one for this language. Raises Failure if a
    package is missing."""
    best: float = math.inf
    """The score that is the best one: mostly the highest, or the lowest."""
    digits: int = 2
    """Decimals to show."""
    in_report: bool = False
    """Whether it has a column of the report beside the figure that ranks."""

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        return {math.inf: "↑", -math.inf: "↓"}.get(self.best, f"→ {self.best:g}")

    @property
    def sign(self) -> int:
        """The factor that turns a difference into an improvement."""
        return -1 if self.best < 0 else 1

    def worth(self, score: float) -> float:
        """A number that is higher for a better score."""
        return -abs(score - self.best) if math.isfinite(self.best) else self.sign * score


def plain_entry(score: float) -> Entry:
    """A score that no signature belongs to."""
    return {"score": round(score, 2), "signature": "", "detail": f"{score:.2f}"}


def entry(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Entry:
    """What a metric of sacreBLEU's says."""
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return {"score": round(result.score, 2), "signature": str(metric.get_signature()), "detail": str(result)}
