"""Computes every BLEU that papers quote, for the same text, side by side.

sacremoses tokenises, and sacrebleu computes.
"""

import re
from itertools import groupby
from textwrap import fill
from typing import Any, Callable, Dict, List, Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesTokenizer

from .kinds import METRICS, TRANSLATION

COLUMNS = 80
"""Width of the table."""


def moses_tokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Turns text into plain Moses tokens: hyphens stay inside words."""
    tokenizer = MosesTokenizer(lang)
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


def split_compounds(lines: Sequence[str]) -> List[str]:
    """``a-b`` -> ``a ##AT##-##AT## b``, as in the scripts behind the Transformer's published figures."""
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines]


def score(hypotheses: Sequence[str], references: Sequence[str], lang: str) -> Dict[str, Dict[str, Any]]:
    """Computes all scores of detokenised hypotheses against raw references.

    Returns:
        ``score`` (0 to 100), ``signature`` and ``detail`` for each of :data:`.kinds.TRANSLATION`, except fairseq's own.
    """

    def entry(metric: Any, change: Callable[[Sequence[str]], Sequence[str]]) -> Dict[str, Any]:
        result = metric.corpus_score(list(change(hypotheses)), [list(change(references))])
        signature = str(metric.get_signature())
        return {"score": round(result.score, 2), "signature": signature, "detail": str(result)}

    def tokens(lines: Sequence[str]) -> List[str]:
        return moses_tokenize(lines, lang)

    return {
        "sacrebleu": entry(BLEU(), lambda lines: lines),
        "bleu_moses": entry(BLEU(tokenize="none", force=True), tokens),
        "bleu_moses_compound_split": entry(BLEU(tokenize="none", force=True), lambda x: split_compounds(tokens(x))),
        "chrf": entry(CHRF(), lambda lines: lines),
        "bleu_moses_lowercase": entry(BLEU(tokenize="none", force=True, lowercase=True), tokens),
    }


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The scores of several runs as aligned text of 80 columns, with a row for each test set and a legend."""
    metrics = {key: METRICS[key] for key in TRANSLATION}
    widths = [max(len(metric.name), len("100.00")) for metric in metrics.values()]
    room = COLUMNS - sum(2 + width for width in widths)
    rows = ["test set".ljust(room) + "".join(f"  {metric.name:>{w}}" for metric, w in zip(metrics.values(), widths))]
    for name, sets in groupby(results, key=lambda result: result["name"]):
        rows.append(name)
        for result in sets:
            entries = [result["scores"].get(key) for key in metrics]
            cells = [f"{entry['score']:.2f}" if entry else "-" for entry in entries]
            subset = _shortened(f"  {result['subset']}", room)
            rows.append(subset.ljust(room) + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths)))
    legend = [f"{metric.name}: {metric.reading}" for metric in metrics.values()]
    legend += [f"sacreBLEU signature: {results[0]['scores']['sacrebleu']['signature']}"]
    return "\n".join([*rows, "", *(fill(line, COLUMNS, subsequent_indent="  ") for line in legend)])


def _shortened(text: str, most: int) -> str:
    """The text without its middle if it is too long: names of sets often differ at the end."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"
