"""What a metric is: its name, the better direction, how to read it, and for translations how to compute it."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple


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


class Metric:
    """One figure of a test set.

    Args:
        name: in tables.
        reading: how to read it, for the legend.
        higher_is_better: whether it is.
        digits: decimals to show.
        in_report: whether it has a column of the report beside the figure that ranks.
    """

    def __init__(
        self, name: str, reading: str, higher_is_better: bool = True, digits: int = 2, in_report: bool = False
    ) -> None:
        self.name, self.reading, self.higher_is_better, self.digits = name, reading, higher_is_better, digits
        self.in_report = in_report

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        return "↑" if self.higher_is_better else "↓"

    @property
    def sign(self) -> int:
        """The factor that turns a difference into an improvement."""
        return 1 if self.higher_is_better else -1

    def worth(self, score: float) -> float:
        """A number that is higher for a better score."""
        return self.sign * score

    def score(self, texts: Texts) -> Optional[Dict[str, Any]]:
        """``score``, ``signature`` and ``detail`` of a translation.

        Returns:
            None if this is no metric of translations, or not one for this language.

        Raises:
            Failure: a package is missing.
        """
        return None


def entry(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Dict[str, Any]:
    """What a metric of sacreBLEU's says."""
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return {"score": round(result.score, 2), "signature": str(metric.get_signature()), "detail": str(result)}
