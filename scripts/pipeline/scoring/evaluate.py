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
from typing import Dict, List, NamedTuple, Tuple

from ..command import Failure, as_failure
from ..files import read_json, sha256, write_json
from ..lock import locked
from ..paths import USER_DIR
from ..prepared import NAME, read_languages
from ..provenance import read_record
from ..settings import averaged, check_data, data_line
from ..steps import Steps
from ..tasks import TASKS
from .generate import generate
from .scored import Scored, check_subset, head, read_scored, run_parser
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


class Blocks(NamedTuple):
    """The blocks of text that a language model was trained on, and is evaluated on."""

    tokens: int
    """of one; the last block of a text may be shorter"""
    bos: bool = False
    """whether ``<s>`` comes before each (``--add-bos-token``): fairseq has it predicted and counted like a token"""


def read_blocks(checkpoint: Path) -> Blocks:
    """The blocks of a checkpoint's training; raises Failure if it cannot be used, or is not of a language model."""
    from fairseq_rope.checkpoints.files import load_checkpoint  # imports fairseq
    from fairseq_rope.checkpoints.model_folder import task_options

    with as_failure():
        task = task_options(load_checkpoint(checkpoint))
    if not task.get("tokens_per_sample"):
        raise Failure(f"{checkpoint} is not of a language model: it has no --tokens-per-sample")
    return Blocks(int(task["tokens_per_sample"]), bool(task.get("add_bos_token")))


def main(argv: List[str]) -> None:
    options = run_parser(__doc__, "prepare_text.sh").parse_args(argv)
    checkpoint = averaged(options.run)
    with locked(options.run):
        scored = _evaluate_once(options, checkpoint)
    print(table([(str(options.run), options.subset, scored.scores)]))


def _evaluate_once(options: argparse.Namespace, checkpoint: Path) -> Scored:
    """The content of the score file; makes the file if it is missing."""
    run, data, subset = options.run, options.data, options.subset
    read_languages(data, is_text=True)
    check_data(run, data)
    check_subset(data, subset)
    task, digest = TASKS[read_record(run, "give the output of scripts/train.sh").task], sha256(checkpoint)
    steps, out = Steps(run), run / "scores" / f"{subset}.json"
    for line in (data_line(data), f"checkpoint {digest}", f"evaluation {VERSION} {task.name}"):
        steps.setting(line)

    def work() -> None:
        blocks, counts = read_blocks(checkpoint), read_json(data / NAME)
        lines, size, tokens = (counts[unit][subset] for unit in ("lines", "bytes", "tokens"))
        command = ["fairseq-validate", str(data / "bin"), "--user-dir", str(USER_DIR), "--task", task.name]
        command += ["--path", str(checkpoint), "--valid-subset", subset, "--max-tokens", str(options.max_tokens)]
        command += ["--model-overrides", str(SAME_FOR_ALL), "--sample-break-mode", "none", "--seed", "1"]
        command += ["--required-batch-size-multiple", "1", "--log-format", "json"]
        loss, perplexity = read_loss(generate(command, checkpoint, out, 0, "evaluate"), subset)
        settings = f"blocks of {blocks.tokens} tokens" + ("" if task.predicts_all else f", {MASKS}")
        signature = f"fairseq-validate, {settings}{', each after <s>' if blocks.bos else ''}"
        found = figures(loss, perplexity, blocks, tokens, tokens / size if task.predicts_all else 0.0)
        scores = {key: {"score": score, "signature": signature} for key, score in found.items()}
        write_json(out, {**head(run, subset, settings, digest), "sentences": lines, "scores": scores})

    steps.step(f"score-{subset}", [f"scores/{subset}.json"], work)
    return read_scored(out, f"remove it and run scripts/evaluate.sh --run {run} --data {data} again", task.metric)


def read_loss(path: Path, subset: str) -> Tuple[float, float]:
    """Bits per token, rounded to three decimals and without smoothing, and perplexity, as fairseq-validate has them."""
    found = re.findall(rf"\| {re.escape(subset)} \| (\{{.*\}})\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    values = {key.removeprefix(f"{subset}_"): value for key, value in json.loads(found[-1]).items()}
    loss = values.get("nll_loss", values["loss"])
    if not math.isfinite(perplexity := float(values["ppl"])):
        raise Failure(f"the loss on '{subset}' is {loss}: the training diverged; train again with a lower --lr")
    return float(loss), perplexity


def figures(loss: float, perplexity: float, blocks: Blocks, tokens: int, tokens_per_byte: float) -> Dict[str, float]:
    """The scores of a model.

    Args:
        loss, perplexity: what fairseq-validate prints.
        tokens: of the text; with ``<s>`` before each block, fairseq divides the same bits by more.
        tokens_per_byte: of a model that predicts all tokens; otherwise 0.
    """
    if blocks.bos:
        loss *= (tokens + -(-tokens // blocks.tokens)) / tokens
        loss, perplexity = round(loss, 3), round(2**loss, 2)
    scores = {"perplexity": perplexity, "loss": loss}
    if tokens_per_byte:
        scores["bits_per_byte"] = round(loss * tokens_per_byte, 3)
    return scores
