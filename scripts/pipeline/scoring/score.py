"""Translates a test set with a run's averaged checkpoint and prints, side by side, the scores that papers call BLEU.

Examples:

    scripts/score.sh --run RUN --data FOLDER [options] [-- fairseq-generate flags]
    scripts/score.sh --run /tmp/run --data /tmp/demo --subset test1

It writes RUN/scores/SUBSET.json (scores and statistics of each sentence: later steps read only this file),
SUBSET.hyp.LANG (the translations), and SUBSET.gen.txt and SUBSET.log (the last output of fairseq-generate). It does not
translate a set again that was scored with the same settings. A legend under the table explains the scores.
"""

import argparse
import ast
import re
import shlex
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..command import BEAM, LENPEN, Failure, as_failure, say
from ..files import read_json, read_lines, sha256, write_json, write_text
from ..languages import base, has_spaces
from ..lock import locked
from ..paths import USER_DIR
from ..prepared import read_languages, read_prepared
from ..provenance import read_record
from ..settings import averaged, check_data, data_line, flags_in, words_in
from ..steps import Steps
from ..text import Text, text_processing
from ..text.raw import check_raw
from ..text.segments import of_documents, split_segments
from .generate import count_cut, generate, read_generated
from .metrics import FAIRSEQ, Texts, score
from .metrics.bleu import standard_bleu
from .scored import Scored, check_subset, head, read_scored, run_parser
from .statistics import columns
from .table import table

VERSION = 2
"""Version of a score file's content; a set whose file has another version is scored again."""

SCORER = "fairseq-generate --scoring bleu"

POSITIONS = ("--max-source-positions", "--max-target-positions")
"""Limits that fairseq-generate has of its own, and takes from no checkpoint."""

DOCUMENT_LENGTH = ["--max-len-a", "2", "--max-len-b", "200"]
"""The longest translation of a block of a document, where the user does not say: fairseq's own are 200 tokens."""

OF_THE_SEARCH = (
    *("--max-len-a", "--max-len-b", "--min-len", "--match-source-len", "--unnormalized", "--unkpen", "--temperature"),
    *("--no-repeat-ngram-size", "--sampling", "--sampling-topk", "--sampling-topp", "--seed", "--no-seed-provided"),
    *("--diverse-beam-groups", "--diverse-beam-strength", "--diversity-rate", "--lm-path", "--lm-weight"),
    *("--retain-dropout", "--retain-dropout-modules", "--model-overrides", "--truncate-source"),
    *("--segment-separator", "--fp16", "--bf16-weights", "--unpacked-weights", "--cpu"),
    *("--batch-size", "--max-sentences", "--num-workers"),
)
"""Flags of fairseq-generate that leave one translation a sentence, found without a look at the reference.

Others choose the data, write elsewhere or another number of translations (``--nbest``, ``--shard-id``), give the
reference to the search (``--prefix-size``, ``--score-reference``), or have an option here.
"""


def main(argv: List[str]) -> None:
    parser = run_parser(__doc__, "prepare.sh", "fairseq-generate")
    parser.add_argument("--beam", metavar="N", type=BEAM, default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", metavar="X", type=LENPEN, default="0.6", help="length penalty (default: 0.6)")
    options = parser.parse_args(argv)
    for flag in (word.split("=", 1)[0] for word in options.flags):
        if re.match("--?[A-Za-z]", flag) and flag not in OF_THE_SEARCH:
            parser.error(f"{flag} does not go behind --: only flags of the search do that have no option here")
    checkpoint = averaged(options.run)
    with locked(options.run):
        scored, title = _score_once(options, checkpoint)
    print(table([(str(options.run), title, scored.scores)]))


def _score_once(options: argparse.Namespace, checkpoint: Path) -> Tuple[Scored, str]:
    """The content of the score file, which it makes if it is missing; and the name of the test set in tables."""
    run, data, subset, flags = options.run, options.data, options.subset, options.flags
    source, target = read_languages(data)
    check_data(run, data)
    again = f"run scripts/prepare.sh --out {data} again"
    prepared = read_prepared(data, again)
    processing = text_processing(data, prepared, source, target)
    check_subset(data, subset)
    sides = [data / "raw" / f"{subset}.{lang}" for lang in (source, target)]
    for side in sides:
        if not side.is_file():
            with_test = "with --binarized also with --test PREFIX"
            raise Failure(f"{data} has no raw text of '{subset}' ({side.name}): {again}, {with_test}")
    out, digest = run / "scores" / f"{subset}.json", sha256(checkpoint)
    steps = Steps(run)
    steps.setting(f"{data_line(data)} {' '.join(map(sha256, sides))}")
    steps.setting(f"checkpoint {digest}")
    steps.setting(f"scoring {VERSION} beam {options.beam} lenpen {options.lenpen} {shlex.join(flags)}")
    if prepared.subwords == "bpe" and base(target) == "cs":
        steps.setting("joined 2")  # numbers keep their spaces
    if not prepared.from_text:  # the data line is then of the binarised files alone
        split_by = [data / name for name in prepared.split_by if (data / name).is_file()]
        steps.setting(" ".join([prepared.subwords, *map(sha256, split_by)]))
    tokens_of = data / processing.tokens / f"{subset}.{source}"
    tokenized = read_lines(tokens_of) if tokens_of.is_file() else []
    if not all(tokenized or read_lines(sides[0])):
        steps.setting("empty sources have empty translations")
    tokens = standard_bleu(target).tokenizer.signature()  # raises Failure before anything is translated
    if tokens != "13a":
        steps.setting(f"tokens {tokens}")
    if prepared.document_tokens:
        steps.setting("scored by document")
    if prepared.document_tokens or "--max-len-a" in flags_in(flags):  # whose limit is of the longest source of a batch
        steps.setting(f"batches of {options.max_tokens} tokens")
    if (longest := max((len(line.split()) + 1 for line in tokenized), default=0)) > options.max_tokens:
        raise Failure(f"{subset} has a source of {longest:,} tokens: give --max-tokens {longest} or more")

    def work() -> None:
        _check_overrides(checkpoint, flags)
        trained = flags_in(read_record(run, "give the output of scripts/train.sh").flags.split())
        command = ["fairseq-generate", str(data / "bin"), "--source-lang", source, "--target-lang", target]
        command += ["--user-dir", str(USER_DIR), "--path", str(checkpoint), "--task", "fast_translation"]
        if "--langs" in trained:  # a task that adds tags, and would lose sentences
            own = {name: words for name, words in trained.items() if name == "--task" or "lang" in name}
            command += [*words_in(own), "--lang-pairs", f"{source}-{target}", "--required-batch-size-multiple", "1"]
        command += ["--gen-subset", subset, "--beam", str(options.beam), "--lenpen", options.lenpen]
        command += ["--max-tokens", str(options.max_tokens), "--scoring", "bleu"]
        command += [f"--post-process={processing.post_process}"] if processing.post_process else []
        limits = [word for flag in POSITIONS if flag in trained for word in (flag, *trained[flag])]
        if prepared.document_tokens and not {"--max-len-a", "--max-len-b"} & set(flags_in(flags)):
            limits += DOCUMENT_LENGTH
        generated = generate([*command, *limits, *flags], checkpoint, out, len(read_lines(sides[1])))
        counts = read_json(data / f"raw/{subset}.json") if prepared.document_tokens else None
        texts, scores = score_text(generated, sides[0], sides[1], processing, counts, tokenized)
        if cut := count_cut(generated, [*limits, *flags], tokenized):
            say(f"{subset}: {cut} of {len(texts)} translations are as long as the search allows, and may be cut")
        settings = ", ".join([f"beam {options.beam}, lenpen {options.lenpen}", *([" ".join(flags)] if flags else [])])
        write_text(out.with_name(f"{subset}.hyp.{target}"), "".join(f"{text}\n" for text in texts))
        write_json(out, {**head(run, subset, settings, digest), **scores})

    steps.step(f"score-{subset}", [f"scores/{subset}.{end}" for end in ("json", f"hyp.{target}")], work)
    scored = read_scored(out, f"remove it and run scripts/score.sh --run {run} --data {data} again")
    return scored, prepared.title(subset)


def _check_overrides(checkpoint: Path, flags: Sequence[str]) -> None:
    """Raises Failure if ``--model-overrides`` names options that the model has not: fairseq would ignore them."""
    if not (given := flags_in(flags).get("--model-overrides")):
        return
    from fairseq_rope.checkpoints.configuration import model_configuration  # imports fairseq
    from fairseq_rope.checkpoints.files import load_checkpoint
    from fairseq_rope.checkpoints.model_folder import task_options
    from fairseq_rope.options import is_position_option

    with as_failure():
        state = load_checkpoint(checkpoint)
        known = {*vars(model_configuration(state)), *task_options(state), *(state.get("cfg") or ())}
    try:
        names = list(ast.literal_eval(" ".join(given)))
    except (SyntaxError, TypeError, ValueError):
        raise Failure(
            f"--model-overrides {given[0]} is no dictionary of Python: as in \"{{'dropout': 0.1}}\""
        ) from None
    for name in names:
        if name not in known and not is_position_option(name):
            raise Failure(f"--model-overrides: the model has no option '{name}': is it misspelt?")


def score_text(
    generated: Path,
    source: Path,
    reference: Path,
    processing: Text,
    counts: Optional[Mapping[str, Any]] = None,
    tokenized: Sequence[str] = (),
) -> Tuple[List[str], Dict[str, Any]]:
    """The translations in fairseq-generate's output as text, and their scores and statistics.

    The translation of a source without tokens is empty, as in ``translate.sh``, whatever the model makes of ``</s>``.

    Args:
        generated: fairseq-generate's output.
        source, reference: the raw text.
        processing: turns the output into text.
        counts: the content of ``raw/SET.json``, if the lines are blocks of documents: documents are then scored.
        tokenized: the tokens of each source; if there are none, its text says whether it is empty.
    """
    lang = processing.target
    references, sources = read_lines(reference), read_lines(source)
    if len(sources) != len(references):
        raise Failure(f"{source} has {len(sources)} lines, {reference} {len(references)}: run scripts/prepare.sh again")
    read = read_generated(generated, len(references))
    text = processing.text if counts is None else processing.blocks
    check_raw(text(read.targets), references, reference, "run scripts/prepare.sh again, on this text")
    texts = [text if line else "" for text, line in zip(text(read.hypotheses), tokenized or sources)]
    to_score = Texts(sources, texts, references, lang)
    if counts is not None:
        to_score = by_document(to_score, counts)
    scores = score(to_score)
    if counts is None:
        scores[FAIRSEQ] = {"score": read.bleu, "signature": ", ".join([SCORER, *filter(None, [processing.figure])])}
    statistics = columns(to_score.sources, to_score.hypotheses, to_score.references, standard_bleu(lang))
    return texts, {"target": lang, "sentences": len(to_score.references), "scores": scores, "statistics": statistics}


def by_document(texts: Texts, counts: Mapping[str, Any]) -> Texts:
    """Blocks of documents as whole documents: one line each, without separators.

    Args:
        texts: a line for each block.
        counts: the content of ``raw/SET.json``.
    """
    sides = (texts.sources, texts.hypotheses, texts.references)
    blocks = [[split_segments(side) for side in block] for block in zip(*sides)]
    documents = of_documents(blocks, counts)

    def whole(side: int) -> List[str]:
        gap = " " if side == 0 or has_spaces(texts.lang) else ""
        return [gap.join(segment for block in document for segment in block[side]) for document in documents]

    pairs = [[(hypothesis, reference) for _, hypothesis, reference in document] for document in documents]
    return Texts(whole(0), whole(1), whole(2), texts.lang, pairs)
