"""Evaluates a language model on a test set with a run's averaged checkpoint, and prints loss and perplexity.

Examples:

    scripts/evaluate.sh --run RUN --data FOLDER [options]
    scripts/evaluate.sh --run /tmp/run --data /tmp/text --subset valid

It writes RUN/scores/SUBSET.json, and the output of fairseq-validate as SUBSET.gen.txt and SUBSET.log. It does not
evaluate a set again that was evaluated with the same settings. Bits per byte are those of a model that predicts every
token: the bits of all tokens, line ends included, by the bytes of the text before it was split.
"""

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import msgspec

from ..command import Failure, check_name, run, whole_number
from ..files import read_as, sha256, write_json
from ..lock import locked
from ..paths import USER_DIR
from ..prepared import NAME, read_text_language
from ..provenance import read_record
from ..settings import check_data, data_line
from ..steps import Steps
from ..tasks import TASKS, Task
from .blocks import read_blocks
from .generate import generate
from .options import averaged, check_subset, run_parser, tell_of_training
from .scored import read_scored
from .table import table

VERSION = 3
"""Version of a score file's content; a set whose file has another version is evaluated again."""

MASKS = "15% masked with seed 1"
SAME_FOR_ALL = {
    **{"mask_prob": 0.15, "leave_unmasked_prob": 0.1, "random_token_prob": 0.1, "mask_stdev": 0.0},
    **{"mask_multiple_length": 1, "mask_whole_words": False, "freq_weighted_replacement": False},
    "shorten_method": "none",
}
"""What a masked model has to predict, however it was trained: models of one length are compared on the same
positions, which are masked as in BERT."""

LOSSES = ("nll_loss", "loss")
"""fairseq's names of the loss in bits per token; a criterion that smooths labels has both."""

LARGEST = 500.0
"""A loss in bits that no model has; the perplexity of a larger one is no number."""


class Counts(msgspec.Struct):
    """The entries of ``prepare.json`` with the size of each set."""

    lines: Dict[str, int]
    bytes: Dict[str, int]
    tokens: Dict[str, int]


def main(argv: List[str]) -> None:
    parser = run_parser(__doc__, "prepare_text.sh")
    tokens = "tokens to evaluate at once; it does not affect the scores (default: 8000)"
    parser.add_argument("--max-tokens", metavar="N", type=whole_number(1), default=8000, help=tokens)
    options = parser.parse_args(argv)
    for folder in (averaged(options.run), options.data):
        check_name(str(folder))
    tell_of_training(options.run)
    with locked(options.run):
        result = _evaluate_once(options)
    print(table([result]))


def _evaluate_once(options: argparse.Namespace) -> Dict[str, Any]:
    """The content of the score file; makes the file if it is missing."""
    run, data, subset = options.run, options.data, options.subset
    read_text_language(data)
    check_data(run, data)
    check_subset(data, subset, (data / "bin").glob("*.idx"))
    task, checkpoint = _task(run), averaged(run)
    digest = sha256(checkpoint)
    steps = Steps(run)
    steps.setting(data_line(data))
    steps.setting(f"checkpoint {digest}")
    steps.setting(f"evaluation {VERSION} {task.name}")
    out = run / "scores" / f"{subset}.json"

    def work() -> None:
        blocks = read_blocks(checkpoint)
        remedy = f"run scripts/prepare_text.sh --out {data} again"
        counts = read_as(data / NAME, Counts, remedy)
        lines, size, tokens = (getattr(counts, unit).get(subset, 0) for unit in ("lines", "bytes", "tokens"))
        if not size or not tokens:
            raise Failure(f"{data / NAME} says that '{subset}' is empty: {remedy}")
        command = ["fairseq-validate", str(data / "bin"), "--user-dir", str(USER_DIR), "--task", task.name]
        command += ["--path", str(checkpoint), "--valid-subset", subset, "--max-tokens", str(options.max_tokens)]
        command += ["--model-overrides", str(SAME_FOR_ALL), "--sample-break-mode", "none", "--seed", "1"]
        command += ["--required-batch-size-multiple", "1", "--log-format", "json"]
        output = generate(command, checkpoint, out, 0, "evaluate")
        measured = read_measured(output, subset).over(blocks.counted(tokens) / tokens)
        settings = str(blocks) if task.predicts_all else f"{blocks}, {MASKS}"
        signature = f"fairseq-validate, {settings}{', each after <s>' if blocks.bos else ''}"
        scores = figures(measured, tokens / size if task.predicts_all else 0, signature)
        head = {"name": str(run), "subset": subset, "settings": settings, "checkpoint": digest}
        write_json(out, {**head, "sentences": lines, "scores": scores})

    steps.step(f"score-{subset}", [f"scores/{subset}.json"], work)
    scored = read_scored(out, f"remove it and run scripts/evaluate.sh --run {run} --data {data} again", task.metric)
    return {**scored, "name": options.name or str(run)}


def _task(run: Path) -> Task:
    """The task that a run was trained for."""
    remedy = "give the output of scripts/train.sh"
    task = TASKS.get(read_record(run, remedy).task)
    if task is None or not task.is_text:
        raise Failure(f"{run}/run.json is not of a language model: {remedy}")
    return task


class Measured(NamedTuple):
    """What fairseq-validate prints: the loss, rounded to three decimals, and the perplexity of the exact loss."""

    loss: float
    """bits per token"""
    perplexity: float

    def over(self, share: float) -> "Measured":
        """The same bits over fewer tokens: fairseq counts ``share`` times as many as the text has."""
        return self if share == 1 else Measured(round(self.loss * share, 3), round(2 ** (self.loss * share), 2))


def read_measured(path: Path, subset: str) -> Measured:
    """The loss and the perplexity from the output of fairseq-validate.

    Raises:
        Failure: they are not there, or no numbers that a trained model has.
    """
    found = re.findall(rf"\| {re.escape(subset)} \| (\{{.*\}})\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    printed = json.loads(found[-1]) if found else {}
    values = {key[len(subset) + 1 :] if key.startswith(f"{subset}_") else key: printed[key] for key in printed}
    losses = [float(values[key]) for key in LOSSES if key in values]
    if not losses or "ppl" not in values:
        raise Failure(f"{path} has no loss of '{subset}': run scripts/evaluate.sh again")
    measured = Measured(losses[0], float(values["ppl"]))
    if not (0 <= measured.loss <= LARGEST and math.isfinite(measured.perplexity)):
        raise Failure(
            f"on '{subset}' the loss is {measured.loss:g} bits per token and the perplexity {measured.perplexity:g}: "
            "the training diverged; train again with a lower --lr"
        )
    return measured


def figures(measured: Measured, tokens_per_byte: float, signature: str) -> Dict[str, Dict[str, Any]]:
    """The scores of a model.

    Args:
        tokens_per_byte: tokens of the text that the model predicts, by its bytes; 0: it does not predict all of them.
        signature: how they were measured.
    """
    scores = {"perplexity": measured.perplexity, "loss": measured.loss}
    if tokens_per_byte:
        scores["bits_per_byte"] = round(measured.loss * tokens_per_byte, 3)
    return {key: {"score": score, "signature": signature} for key, score in scores.items()}


if __name__ == "__main__":
    run(main)
