"""Scores the output of fairseq-generate against the raw reference: every BLEU that papers quote, side by side.

::

    score.py --generated test.gen.txt --reference raw/test.de --lang de --out test.json --hypotheses test.hyp.de
    score.py --table RUN/scores/test.json ...

Tokenisation is sacremoses', arithmetic is sacrebleu's. Imports nothing of this package.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesDetokenizer, MosesTokenizer

from ..files import read_json, write_json, write_text

SCORES = {
    "sacrebleu": "sacreBLEU (13a, raw reference)",
    "bleu_moses": "BLEU, Moses tokens",
    "bleu_moses_compound_split": "BLEU, Moses tokens, compounds split (27.3/27.5 style)",
    "chrf": "chrF2",
    "bleu_moses_lowercase": "BLEU, Moses tokens, lower-cased (41.0 style, Multi30k)",
    "bleu_fairseq_training_tokens": "fairseq's BLEU, tokens as trained",
}
"""Key in the JSON file, to what the score is."""

UNKNOWN = "⁇"
"""Stands for fairseq's ``<unk>`` in text: one word, which no reference has. As it is, ``<unk>`` would be three
tokens in every count, and match a literal one in a reference."""

AFTER_MOSES = (
    (re.compile(r" ?/ ?"), "/"),  # km / h
    (re.compile(r"(\d )([$£€¥])(?=[^\W\d_])"), r"\1\2 "),  # 90 £sowie; but: costs £90
)
"""What sacremoses' detokeniser leaves apart or joins wrongly, in its output."""

GERMAN_APOSTROPHES = (
    (re.compile(r"(?<=\w) &apos; (?=s(?: |$))"), "&apos;"),  # gibt ' s
    (re.compile(r"(?<!\S)([CDILOcdl]) &apos; (?=[^\W\d_])"), r"\1&apos;"),  # O ' Connor
)
"""Apostrophes inside words: the German tokeniser splits both sides off, and the detokeniser takes them for quotes."""


class ScoreError(ValueError):
    """Input that cannot be scored; the message names the file."""


def read_lines(path: Path) -> List[str]:
    """The lines of a UTF-8 file: only a newline ends one, of Unix or of Windows.

    Raises:
        ScoreError: the file is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScoreError(f"{path}: not UTF-8 (byte {error.start}): convert it with iconv") from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def read_hypotheses(path: Path) -> List[str]:
    """The best hypotheses in fairseq-generate's output, in the order of the test set, as tokens without BPE.

    An empty hypothesis is an empty line. Of several for one sentence (``--nbest``) the first is the best.

    Raises:
        ScoreError: none are there, one is missing or damaged, or they are still in BPE units.
    """
    hypotheses: Dict[int, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith("H-"):
            found = re.fullmatch(r"H-(\d+)\t([^\t]+)(?:\t(.*))?", line)
            if not found:
                raise ScoreError(f"{path}, line {number}: not a hypothesis of fairseq-generate: run it again")
            hypotheses.setdefault(int(found[1]), found[3] or "")
    if sorted(hypotheses) != list(range(len(hypotheses))) or not hypotheses:
        raise ScoreError(f"{path}: incomplete: it has {len(hypotheses)} hypotheses; run fairseq-generate again")
    marked = sum(bool(re.search(r"@@(?!\S)", tokens)) for tokens in hypotheses.values())
    if marked:
        raise ScoreError(
            f"{path}: {marked} hypotheses have BPE markers (@@): run fairseq-generate with --post-process subword_nmt"
        )
    return [hypotheses[i] for i in range(len(hypotheses))]


def detokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Moses tokens to text: escaped, without BPE, hyphens split (``@-@``) or not; ``<unk>`` becomes :data:`UNKNOWN`."""
    detokenizer = MosesDetokenizer(lang)
    texts = []
    for line in lines:
        line = " ".join(line.replace("<unk>", UNKNOWN).split())
        for pattern, replacement in GERMAN_APOSTROPHES if lang == "de" else ():
            line = pattern.sub(replacement, line)
        text = detokenizer.detokenize(line.split(" "))
        for pattern, replacement in AFTER_MOSES:
            text = pattern.sub(replacement, text)
        texts.append(text)
    return texts


def moses_tokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Text to plain Moses tokens: hyphens stay inside words."""
    tokenizer = MosesTokenizer(lang)
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


def split_compounds(lines: Sequence[str]) -> List[str]:
    """``a-b`` -> ``a ##AT##-##AT## b``, as in the scripts behind the Transformer's published figures."""
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines]


def score(hypotheses: Sequence[str], references: Sequence[str], lang: str) -> Dict[str, Dict[str, Any]]:
    """All scores of detokenised hypotheses against raw references.

    Returns:
        For each key of :data:`SCORES` but fairseq's own: ``score`` (0 to 100), ``signature`` and ``detail``.
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


def fairseq_score(path: Path) -> Optional[Dict[str, Any]]:
    """fairseq-generate's own BLEU line, on the tokens as trained; None if it printed none.

    It is unsmoothed BLEU of the H- lines against the T- lines, but that an empty hypothesis counts as one wrong word.
    """
    found = re.findall(r"BLEU4 = ([\d.]+), .*", "\n".join(read_lines(path)))
    return {"score": float(found[-1]), "signature": "fairseq-generate --scoring bleu"} if found else None


def table(results: Sequence[Dict[str, Any]]) -> str:
    """The scores of several runs as aligned text, one row each, with a legend."""
    keys = list(SCORES)
    titles = ["sacreBLEU", "moses", "moses+split", "chrF2", "moses lc", "fairseq"]
    names = [f"{r['name']} {r['subset']}" for r in results]
    width = max([len(name) for name in names] + [len("run, test set")])
    rows = ["  ".join([f"{'run, test set':<{width}}"] + [f"{title:>11}" for title in titles])]
    for name, result in zip(names, results):
        values = [result["scores"].get(key) for key in keys]
        cells = [f"{value['score']:>11.2f}" if value else f"{'-':>11}" for value in values]
        rows.append("  ".join([f"{name:<{width}}", *cells]))
    legend = [f"{title}: {SCORES[key]}" for title, key in zip(titles, keys)]
    return "\n".join([*rows, "", *legend, f"sacreBLEU signature: {results[0]['scores']['sacrebleu']['signature']}"])


def _score_files(args: argparse.Namespace) -> Dict[str, Any]:
    hypotheses = detokenize(read_hypotheses(args.generated), args.lang)
    references = read_lines(args.reference)
    if len(hypotheses) != len(references):
        raise ScoreError(f"{args.generated} has {len(hypotheses)} hypotheses, {args.reference} {len(references)} lines")
    scores = score(hypotheses, references, args.lang)
    own = fairseq_score(args.generated)
    if own:
        scores["bleu_fairseq_training_tokens"] = own
    result = {"name": args.name, "subset": args.subset, "sentences": len(references), "settings": args.settings}
    result["scores"] = scores
    write_text(args.hypotheses, "".join(line + "\n" for line in hypotheses))
    write_json(args.out, result)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--table", nargs="+", type=Path, help="JSON files to print as one table, and nothing else")
    parser.add_argument("--generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--reference", type=Path, help="raw reference")
    parser.add_argument("--lang", default="de", help="target language (default: de)")
    parser.add_argument("--name", default="", help="name of the run in the table")
    parser.add_argument("--subset", default="test", help="name of the test set")
    parser.add_argument("--settings", default="", help="how it was generated, for the record")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--hypotheses", type=Path, help="file for the detokenised hypotheses")
    args = parser.parse_args()
    if not args.table and not (args.generated and args.reference and args.out and args.hypotheses):
        parser.error("--generated, --reference, --out and --hypotheses are needed")
    try:
        results = [read_json(path) for path in args.table] if args.table else [_score_files(args)]
    except (ScoreError, OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {error}")
    print(table(results))


if __name__ == "__main__":
    main()
