"""Scores as aligned text."""

import re
from itertools import groupby
from textwrap import fill
from typing import Any, List, Mapping, Sequence

from .metrics import FAIRSEQ, METRICS
from .metrics.documents import DocumentMetric

COLUMNS = 80
"""Width of the table."""

DOCUMENTS = [key for key, metric in METRICS.items() if isinstance(metric, DocumentMetric)]
"""The figures that documents have beside those of sentences."""

SENTENCES = [key for key, metric in METRICS.items() if key == FAIRSEQ or (metric.scores_text and key not in DOCUMENTS)]
"""The figures of sentences, also if a language lacks some."""


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The scores of several runs as aligned text of 80 columns, with a row for each test set and a legend."""
    metrics = {key: METRICS[key] for key in _columns(results)}
    widths = [max(len(metric.name), len("100.00")) for metric in metrics.values()]
    room = COLUMNS - sum(2 + width for width in widths)
    rows = ["test set".ljust(room) + "".join(f"  {metric.name:>{w}}" for metric, w in zip(metrics.values(), widths))]
    for name, sets in groupby(results, key=lambda result: result["name"]):
        rows.append(name)
        for result in sets:
            entries = [(result["scores"].get(key), metric.digits) for key, metric in metrics.items()]
            cells = [f"{entry['score']:.{digits}f}" if entry else "-" for entry, digits in entries]
            subset = _shortened(f"  {result.get('title', result['subset'])}", room)
            rows.append(subset.ljust(room) + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths)))
    return "\n".join([*rows, "", *(fill(line, COLUMNS, subsequent_indent="  ") for line in _legend(results))])


def _columns(results: Sequence[Mapping[str, Any]]) -> List[str]:
    there = [key for key in METRICS if any(key in result["scores"] for result in results)]
    return SENTENCES if "sacrebleu" in there and not set(DOCUMENTS) & set(there) else there


def _shortened(text: str, most: int) -> str:
    """The text without its middle if it is too long: names of sets often differ at the end."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"


def _legend(results: Sequence[Mapping[str, Any]]) -> List[str]:
    """A line for each figure, one for those that the target language does not have, and sacreBLEU's signature."""
    if "sacrebleu" not in results[0]["scores"]:
        return [f"{METRICS[key].name}: {METRICS[key].reading}" for key in _columns(results)]
    signature = results[0]["scores"]["sacrebleu"]["signature"]
    used = re.search(r"\btok:([^|]*)", signature)
    there = [key for key in _columns(results) if any(key in result["scores"] for result in results)]
    readings = {key: METRICS[key].reading for key in there}
    readings["sacrebleu"] = readings["sacrebleu"].replace("13a", used[1] if used else "13a")
    figure = results[0]["scores"].get(FAIRSEQ, {}).get("signature", "").partition(", ")[2]
    if figure:
        readings[FAIRSEQ] = f"BLEU of fairseq-generate, {figure}"
    legend = [f"{METRICS[key].name}: {reading}" for key, reading in readings.items()]
    if set(DOCUMENTS) & set(there):
        legend.insert(0, "documents: a document is a line of both texts, its segments joined")
    missing = ", ".join(METRICS[key].name for key in _columns(results) if "moses" in key and key not in there)
    if missing:
        target = results[0].get("target", "this language")
        legend.append(f"{missing}: not for {target}, as no spaces separate its words")
    return [*legend, f"sacreBLEU signature: {signature}"]
