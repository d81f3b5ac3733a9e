"""chrF."""

from typing import Any, Dict

from sacrebleu.metrics import CHRF

from .base import Metric, Texts, entry


class ChrF(Metric):
    """sacreBLEU's chrF2, of raw text."""

    def score(self, texts: Texts) -> Dict[str, Any]:
        return entry(CHRF(), texts.hypotheses, texts.references)
