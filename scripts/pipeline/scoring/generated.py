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
LINE = re.compile(r"([HT])-([0-9]+)(?:\t(.*))?")
OWN_LINE = re.compile(r"Generate .* with beam=.*: BLEU4 = ([0-9.]+), .*")

POSITIONS = 1024
"""``--max-target-positions`` where it is not given."""

COLLISIONS = 2
"""Matches of n-grams of one length that fairseq may find where there are none; seen: one in 1,000 sentences."""


@dataclass(frozen=True)
class Generated:
    """The output of fairseq-generate in the order of the test set: tokens, as ``--post-process`` leaves them."""

    hypotheses: List[str]
    """An empty hypothesis is an empty line."""
    targets: List[str]
    """The reference as it was binarised; an unknown word is ``<<unk>>``."""
    bleu: float
    """fairseq's own figure, two decimals."""


def read_generated(path: Path, sentences: int) -> Generated:
    """Reads the output for a test set with this number of sentences.

    Raises:
        Failure: a sentence is missing or comes twice, or the output is cut off.
    """
    found: Dict[str, Dict[int, str]] = {"H": {}, "T": {}}
    figures = []
    for line in read_lines(path):
        if match := LINE.fullmatch(line):
            side, sentence, text = found[match[1]], int(match[2]), match[3] or ""
            if sentence in side:
                raise Failure(f"{path} has sentence {sentence} twice ({match[1]}-{sentence}): {AGAIN}")
            side[sentence] = text if match[1] == "T" else text.partition("\t")[2]  # behind the score
        elif own_line := OWN_LINE.fullmatch(line):
            figures.append(float(own_line[1]))
    for what, side in (("hypotheses", found["H"]), ("reference lines", found["T"])):
        if side.keys() != set(range(sentences)):
            raise Failure(f"{path} has other {what} than those of {sentences} sentences ({len(side)}): {AGAIN}")
    if len(figures) != 1:
        raise Failure(f"{path} is incomplete: fairseq's BLEU stands there {len(figures)} times: {AGAIN}")
    hypotheses, targets = ([side[sentence] for sentence in range(sentences)] for side in found.values())
    return Generated(hypotheses, targets, figures[0])


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
