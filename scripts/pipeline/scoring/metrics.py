"""Computes every BLEU that papers quote, for the same text, side by side.

sacremoses tokenises, and sacrebleu computes.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesTokenizer

from .kinds import METRICS, TRANSLATION


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
    """The scores of several runs as aligned text, one row for each run, with a legend."""
    names = [f"{r['name']} {r['subset']}" for r in results]
    width = max([len(name) for name in names] + [len("run, test set")])
    metrics = {key: METRICS[key] for key in TRANSLATION}
    rows = ["  ".join([f"{'run, test set':<{width}}"] + [f"{metric.name:>11}" for metric in metrics.values()])]
    for name, result in zip(names, results):
        entries = [result["scores"].get(key) for key in metrics]
        cells = [f"{entry['score']:>11.2f}" if entry else f"{'-':>11}" for entry in entries]
        rows.append("  ".join([f"{name:<{width}}", *cells]))
    legend = [f"{metric.name}: {metric.reading}" for metric in metrics.values()]
    return "\n".join([*rows, "", *legend, f"sacreBLEU signature: {results[0]['scores']['sacrebleu']['signature']}"])
