"""Reads fairseq-generate's output, and checks it against itself."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Sequence

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from ..command import LONGEST, Failure
from ..files import read_lines
from ..settings import flags_in
from .statistics import ROUNDED

AGAIN = "run scripts/score.sh again"

HYPOTHESIS = re.compile(r"H-([0-9]+)\t[^\t]+(?:\t(.*))?")
TARGET = re.compile(r"T-([0-9]+)(?:\t(.*))?")
OWN_LINE = re.compile(r"Generate .* with beam=.*: BLEU4 = ([0-9.]+), .*")
BPE_MARKER = re.compile(r"@@(?!\S)")

POSITIONS = 1024
"""``--max-target-positions`` where it is not given."""

COLLISIONS = 2
"""Matches of n-grams of one length that fairseq may find where there are none; seen: one in 1,000 sentences."""


@dataclass(frozen=True)
class Generated:
    """The output of fairseq-generate in the order of the test set: tokens, without the marks of BPE."""

    hypotheses: List[str]
    """An empty hypothesis is an empty line."""
    targets: List[str]
    """The reference as it was binarised; an unknown word is ``<<unk>>``."""
    bleu: float
    """fairseq's own figure, two decimals."""


def read_generated(path: Path, sentences: int, post_process: str = "subword_nmt") -> Generated:
    """Reads the output for a test set with this number of sentences, made with this ``--post-process``.

    Raises:
        Failure: a sentence is missing, comes twice or is damaged, or the hypotheses are still in BPE units.
    """
    hypotheses: Dict[int, str] = {}
    targets: Dict[int, str] = {}
    figures = []
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith("H-"):
            _add(hypotheses, HYPOTHESIS, line, "hypotheses", f"{path}, line {number}")
        elif line.startswith("T-"):
            _add(targets, TARGET, line, "reference lines", f"{path}, line {number}")
        elif own_line := OWN_LINE.fullmatch(line):
            figures.append(float(own_line[1]))
    _check_complete(hypotheses, sentences, "hypotheses", path)
    _check_complete(targets, sentences, "reference lines", path)
    if len(figures) != 1:
        raise Failure(
            f"{path} is incomplete: it has {len(figures)} lines of fairseq's BLEU, and should have 1: {AGAIN}"
        )
    marked = sum(bool(BPE_MARKER.search(tokens)) for tokens in hypotheses.values())
    if marked and post_process == "subword_nmt":
        raise Failure(f"{path}: {marked} hypotheses have BPE markers (@@): use --post-process subword_nmt")
    order = range(sentences)
    return Generated([hypotheses[i] for i in order], [targets[i] for i in order], figures[0])


def _add(side: Dict[int, str], pattern: "re.Pattern[str]", line: str, what: str, place: str) -> None:
    entry = pattern.fullmatch(line)
    if not entry:
        raise Failure(f"{place}: not one of fairseq-generate's {what}: {AGAIN}")
    sentence = int(entry[1])
    if sentence in side:
        raise Failure(f"{place}: sentence {sentence} has 2 {what}, and should have 1: {AGAIN}")
    side[sentence] = entry[2] or ""


def _check_complete(side: Dict[int, str], sentences: int, what: str, path: Path) -> None:
    missing = [i for i in range(sentences) if i not in side]
    if missing:
        count = f"it has {len(side)} {what} for {sentences} sentences"
        raise Failure(f"{path} is incomplete: {count}, and none for sentence {missing[0]}: {AGAIN}")
    if len(side) > sentences:
        raise Failure(f"{path} has {len(side)} {what}, and the raw reference {sentences} lines: prepare the data again")


def count_cut(path: Path, flags: Sequence[str]) -> int:
    """How many hypotheses have as many tokens as the search makes at most, and may be cut.

    Limits that follow the length of the source (``--max-len-a``) are not looked at.

    Args:
        path: the output of fairseq-generate.
        flags: those of the training (``--max-target-positions``) and of fairseq-generate.
    """
    given = {name: " ".join(words) for name, words in flags_in(flags).items()}
    if float(given.get("--max-len-a", 0)):
        return 0
    positions = int(given.get("--max-target-positions", POSITIONS))  # </s> needs one of them
    longest = min(int(given.get("--max-len-b", LONGEST)), positions - 1)
    scores = [line.split()[1:] for line in read_lines(path) if line.startswith("P-")]  # of each token, and of </s>
    return sum(len(of_tokens) > longest for of_tokens in scores)


def check_bleu(generated: Generated, path: Path) -> None:
    """Raises Failure unless fairseq's own figure matches the lines in the same output.

    fairseq compares hashes of n-grams. Two n-grams can have the same, so it may count :data:`COLLISIONS` matches too
    many of each length.
    """
    computed = fairseq_bleu(generated.hypotheses, generated.targets)
    most = computed.score * math.prod((count + COLLISIONS) / max(count, 1) for count in computed.counts) ** 0.25
    if not computed.score - ROUNDED <= generated.bleu <= most + ROUNDED:
        raise Failure(f"{path}: fairseq says {generated.bleu:.2f} BLEU, its lines have {computed.score:.2f}: {AGAIN}")


def fairseq_bleu(hypotheses: Sequence[str], targets: Sequence[str]) -> BLEUScore:
    """fairseq's BLEU (0 to 100): not smoothed, of tokens separated by spaces.

    fairseq's scorer never removes the last token of a sentence, so an empty sentence counts as the word ``</s>``. An
    unknown word of the reference, ``<<unk>>``, matches nothing: unknown words of hypotheses are ``<unk>``.
    """
    scorer = BLEU(tokenize="none", smooth_method="none", force=True)
    sides = [[" ".join(line.split()) or "</s>" for line in side] for side in (hypotheses, targets)]
    return scorer.corpus_score(sides[0], [sides[1]])
