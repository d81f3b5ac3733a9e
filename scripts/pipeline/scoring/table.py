"""Scores as aligned text."""

import re
from itertools import groupby
from textwrap import fill
from typing import Any, Iterator, List, Mapping, Sequence, Tuple

from .metrics import FAIRSEQ, METRICS
from .scored import BLEU

COLUMNS = 80
"""Width of the table."""

Row = Tuple[str, str, Mapping[str, Mapping[str, Any]]]
"""The name of a run and of a test set, and its scores."""


def table(rows: Sequence[Row]) -> str:
    """The scores of several runs as aligned text of 80 columns, with a row for each test set and a legend."""
    metrics = {key: metric for key, metric in METRICS.items() if any(key in scores for _, _, scores in rows)}
    widths = [max(len(metric.name), len("100.00")) for metric in metrics.values()]
    room = COLUMNS - sum(2 + width for width in widths)

    def line(name: str, cells: Sequence[str]) -> str:
        return name.ljust(room) + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths))

    lines = [line("test set", [metric.name for metric in metrics.values()])]
    for run, sets in groupby(rows, key=lambda row: row[0]):
        lines.append(run)
        for _, test, scores in sets:
            cells = [
                f"{scores[key]['score']:.{metric.digits}f}" if key in scores else "-" for key, metric in metrics.items()
            ]
            lines.append(line(f"  {test}", cells))
    legend = _legend(list(metrics), rows[0][2])
    wrapped = (fill(each, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) for each in legend)
    return "\n".join([*lines, "", *wrapped])


def _legend(keys: List[str], scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """How to read each figure, with the tokens of this language, and sacreBLEU's signature."""
    signature = scores.get(BLEU, {}).get("signature", "")
    tokens = re.search(r"\btok:([^|]*)", signature)
    for key in keys:
        reading = METRICS[key].reading
        if key == BLEU and tokens:
            reading = reading.replace("13a", tokens[1])
        if key == FAIRSEQ and (figure := scores.get(key, {}).get("signature", "").partition(", ")[2]):
            reading = f"BLEU of fairseq-generate, {figure}"
        yield f"{METRICS[key].name}: {reading}"
    if signature:
        yield f"sacreBLEU signature: {signature}"
