"""Translates a test set with a run's averaged checkpoint and prints, side by side, the scores that papers call BLEU.

Examples:

    scripts/score.sh --run RUN --data FOLDER [options] [-- fairseq-generate flags]
    scripts/score.sh --run /tmp/run --data /tmp/demo --subset test1

It writes RUN/scores/SUBSET.json (scores and statistics of each sentence: later steps read only this file),
SUBSET.hyp.LANG (the translations), and SUBSET.gen.txt and SUBSET.log (the last output of fairseq-generate). It does not
translate a set again that was scored with the same settings. A legend under the table explains the scores.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from ..command import BEAM, LENPEN, Failure, Parser, fill, run, say, split_at_dashes, whole_number
from ..files import read_lines, sha256, write_json, write_text
from ..lock import locked
from ..paths import USER_DIR
from ..prepared import read_languages, read_prepared
from ..processing.base import Processing
from ..processing.kinds import text_processing
from ..processing.raw import check_raw
from ..settings import check_data, data_line
from ..steps import Steps
from .generate import generate
from .generated import check_bleu, count_cut, read_generated
from .kinds import FAIRSEQ
from .metrics import score, standard_bleu, table
from .options import averaged, check_subset, run_parser, tell_of_training, trained_flags
from .scored import read_scored
from .statistics import columns

VERSION = 2
"""Version of a score file's content; a set whose file has another version is scored again."""

SCORER = "fairseq-generate --scoring bleu"

HAVE_OPTIONS = {"--beam": "--beam", "--lenpen": "--lenpen", "--max-tokens": "--max-tokens", "--gen-subset": "--subset"}
"""Flags of fairseq-generate, to the options of score.sh that set them."""

SET_HERE = (
    *("--path", "--user-dir", "--task", "--source-lang", "-s", "--target-lang", "-t", "--post-process", "--remove-bpe"),
    *("--required-batch-size-multiple", "--scoring", "--checkpoint-suffix", "--checkpoint-shard-count"),
)
"""Flags that score.sh sets as it needs them."""

NOT_TO_BE_SCORED = (
    *("--nbest", "--quiet", "--results-path", "--sacrebleu", "--bpe", "--tokenizer", "--score-reference"),
    *("--skip-invalid-size-inputs-valid-test", "--num-shards", "--shard-id"),
    *("--distributed-world-size", "--distributed-rank"),
)
"""Flags that give another number of translations than one per sentence, or write them elsewhere."""


def main(argv: List[str]) -> None:
    template, words = split_at_dashes(argv)
    words, flags = split_at_dashes(words)
    parser = _parser()
    options = parser.parse_args(words)
    _check_flags(parser, flags)
    averaged(options.run)
    tell_of_training(options.run)
    with locked(options.run):
        result = _score_once(options, template, flags)
    print(table([result]))


def _parser() -> Parser:
    parser = run_parser(__doc__, "prepare.sh", "fairseq-generate")
    parser.add_argument("--beam", metavar="N", type=BEAM, default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", metavar="X", type=LENPEN, default="0.6", help="length penalty (default: 0.6)")
    tokens = "padded source tokens to translate at once; it does not affect the scores (default: 8000)"
    parser.add_argument("--max-tokens", metavar="N", type=whole_number(1), default=8000, help=tokens)
    return parser


def _check_flags(parser: Parser, flags: Sequence[str]) -> None:
    """Refuses flags of fairseq-generate that contradict an option, or whose output cannot be scored."""
    for word in flags:
        flag = word.split("=", 1)[0]
        if flag in HAVE_OPTIONS:
            parser.error(f"{flag} does not go behind --: use the option {HAVE_OPTIONS[flag]}")
        if flag in SET_HERE:
            parser.error(f"{flag} does not go behind --: it is set here")
        if flag in NOT_TO_BE_SCORED:
            parser.error(f"{flag} does not go behind --: its output cannot be scored")


def _score_once(options: argparse.Namespace, template: Sequence[str], flags: Sequence[str]) -> Dict[str, Any]:
    """The content of the score file; makes the file if it is missing."""
    run, data, subset = options.run, options.data, options.subset
    source, target = read_languages(data)
    check_data(run, data)
    prepared = read_prepared(data, f"run scripts/prepare.sh --out {data} again")
    processing = text_processing(data, prepared, source, target)
    check_subset(data, subset, (data / "bin").glob(f"*.{source}-{target}.*.idx"))
    sides = [data / "raw" / f"{subset}.{lang}" for lang in (source, target)]
    for side in sides:
        if not side.is_file():
            raise Failure(
                f"{data} has no raw text of '{subset}' ({side.name}): run scripts/prepare.sh --out {data} again, with "
                "--binarized also with --test PREFIX"
            )
    out = run / "scores" / f"{subset}.json"
    name = options.name or str(run)
    path = averaged(run)
    checkpoint = sha256(path)
    steps = Steps(run)
    steps.setting(f"{data_line(data)} {' '.join(map(sha256, sides))}")
    steps.setting(f"checkpoint {checkpoint}")
    steps.setting(f"scoring {VERSION} beam {options.beam} lenpen {options.lenpen} {shlex.join(flags)}")
    if not prepared.from_text:  # the data line is then of the binarised files alone
        split_by = [data / name for name in prepared.split_by if (data / name).is_file()]
        steps.setting(" ".join([prepared.subwords, *map(sha256, split_by)]))
    tokens = standard_bleu(target).tokenizer.signature()  # raises Failure before anything is translated
    if tokens != "13a":
        steps.setting(f"tokens {tokens}")

    def work() -> None:
        values = {
            **vars(options),
            "source": source,
            "target": target,
            "post_process": processing.post_process and f"--post-process={processing.post_process}",
            "checkpoint": path,
            "user_dir": USER_DIR,
        }
        command = [*fill(template, **values), *flags]
        generated = generate(command, path, out, len(read_lines(sides[1])))
        settings = ", ".join(
            [f"beam {options.beam}", f"lenpen {options.lenpen}", *([" ".join(flags)] if flags else [])]
        )
        head = {"name": name, "subset": subset, "settings": settings, "checkpoint": checkpoint}
        texts, scored = score_text(generated, sides[0], sides[1], processing)
        if cut := count_cut(generated, [*trained_flags(run), *flags]):
            say(f"{subset}: {cut} of {len(texts)} translations are as long as the search allows, and may be cut")
        write_text(out.with_name(f"{subset}.hyp.{target}"), "".join(f"{text}\n" for text in texts))
        write_json(out, {**head, **scored})

    steps.step(f"score-{subset}", [f"scores/{subset}.{end}" for end in ("json", f"hyp.{target}")], work)
    scored = read_scored(out, f"remove it and run scripts/score.sh --run {run} --data {data} again")
    return {**scored, "name": name, "title": prepared.title(subset)}


def score_text(
    generated: Path, source: Path, reference: Path, processing: Processing
) -> Tuple[List[str], Dict[str, Any]]:
    """The translations in fairseq-generate's output as text, and their scores and statistics.

    Args:
        generated: fairseq-generate's output.
        source: raw source text.
        reference: raw reference.
        processing: turns the output into text.

    Raises:
        Failure: the output is not complete, or does not belong to these files.
    """
    lang = processing.target
    references, sources = read_lines(reference), read_lines(source)
    if len(sources) != len(references):
        raise Failure(f"{source} has {len(sources)} lines, {reference} {len(references)}: run scripts/prepare.sh again")
    read = read_generated(generated, len(references), processing.post_process)
    check_bleu(read, generated)
    check_raw(processing.text(read.targets), references, reference, "run scripts/prepare.sh again, on this text")
    texts = processing.text(read.hypotheses)
    scores = score(texts, references, lang)
    scores[FAIRSEQ] = {"score": read.bleu, "signature": ", ".join([SCORER, *filter(None, [processing.figure])])}
    statistics = columns(sources, texts, references, standard_bleu(lang))
    return texts, {"target": lang, "sentences": len(references), "scores": scores, "statistics": statistics}


if __name__ == "__main__":
    run(main)
