"""Computes every BLEU that papers quote, for the same text, side by side.

sacremoses tokenises, and sacrebleu computes.
"""

import re
from itertools import groupby
from textwrap import fill
from typing import Any, Callable, Dict, List, Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesTokenizer

from ..command import Failure
from ..languages import base, has_spaces, tokenizer
from .kinds import FAIRSEQ, METRICS, TRANSLATION


def standard_bleu(lang: str) -> BLEU:
    """sacreBLEU's BLEU with the tokens that are usual for a language: 13a, for Chinese ``zh``, and so on.

    Raises:
        Failure: a package is missing that the tokeniser needs. There is no other tokeniser in its place: the same
            command gives the same figure on every machine.
    """
    name = tokenizer(lang)
    try:
        return BLEU(tokenize=name)
    except (ImportError, RuntimeError):
        extra = name.split("-")[0]
        raise Failure(f"BLEU of {lang} needs sacreBLEU's tokeniser {name}: pip install 'sacrebleu[{extra}]'") from None


COLUMNS = 80
"""Width of the table."""


def moses_tokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Turns text into plain Moses tokens: hyphens stay inside words."""
    tokenizer = MosesTokenizer(base(lang))
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


def split_compounds(lines: Sequence[str]) -> List[str]:
    """``a-b`` -> ``a ##AT##-##AT## b``, as in the scripts behind the Transformer's published figures."""
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines]


def score(hypotheses: Sequence[str], references: Sequence[str], lang: str) -> Dict[str, Dict[str, Any]]:
    """Computes all scores of detokenised hypotheses against raw references.

    Returns:
        ``score`` (0 to 100), ``signature`` and ``detail`` for each of :data:`.kinds.TRANSLATION`, except fairseq's own,
        and those on Moses tokens if no spaces separate the words of the language: Moses splits at spaces.

    Raises:
        Failure: :func:`standard_bleu` fails.
    """

    def entry(metric: Any, change: Callable[[Sequence[str]], Sequence[str]]) -> Dict[str, Any]:
        result = metric.corpus_score(list(change(hypotheses)), [list(change(references))])
        signature = str(metric.get_signature())
        return {"score": round(result.score, 2), "signature": signature, "detail": str(result)}

    def tokens(lines: Sequence[str]) -> List[str]:
        return moses_tokenize(lines, lang)

    def plain(lines: Sequence[str]) -> Sequence[str]:
        return lines

    kinds = {
        "sacrebleu": (standard_bleu(lang), plain),
        "bleu_moses": (BLEU(tokenize="none", force=True), tokens),
        "bleu_moses_compound_split": (BLEU(tokenize="none", force=True), lambda x: split_compounds(tokens(x))),
        "chrf": (CHRF(), plain),
        "bleu_moses_lowercase": (BLEU(tokenize="none", force=True, lowercase=True), tokens),
    }
    return {key: entry(*kind) for key, kind in kinds.items() if has_spaces(lang) or "moses" not in key}


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
    """The figures to show: those of translation, also if a language lacks some, or else those that there are."""
    there = [key for key in METRICS if any(key in result["scores"] for result in results)]
    return list(TRANSLATION) if "sacrebleu" in there else there


def _shortened(text: str, most: int) -> str:
    """The text without its middle if it is too long: names of sets often differ at the end."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"


def _legend(results: Sequence[Mapping[str, Any]]) -> List[str]:
    """A line for each figure, one for those that the target language does not have, and sacreBLEU's signature."""
    if "sacrebleu" not in results[0]["scores"]:
        return [f"{METRICS[key].name}: {METRICS[key].reading}" for key in _columns(results)]
    signature = results[0]["scores"]["sacrebleu"]["signature"]
    used = re.search(r"\btok:([^|]*)", signature)
    there = [key for key in TRANSLATION if any(key in result["scores"] for result in results)]
    readings = {key: METRICS[key].reading for key in there}
    readings["sacrebleu"] = readings["sacrebleu"].replace("13a", used[1] if used else "13a")
    figure = results[0]["scores"].get(FAIRSEQ, {}).get("signature", "").partition(", ")[2]
    if figure:
        readings[FAIRSEQ] = f"BLEU of fairseq-generate, {figure}"
    legend = [f"{METRICS[key].name}: {reading}" for key, reading in readings.items()]
    missing = ", ".join(METRICS[key].name for key in TRANSLATION if "moses" in key and key not in there)
    if missing:
        target = results[0].get("target", "this language")
        legend.append(f"{missing}: not for {target}, as no spaces separate its words")
    return [*legend, f"sacreBLEU signature: {signature}"]
