"""The part of the report about the papers' claims: which of them the runs bear out, with the numbers of both."""

from typing import List, Sequence

from .cells import count, label, p_values, signed
from .claims import AGREES, CONTRADICTS, OPEN, Checked
from .comparison import LEVEL
from .document import Block, Code, Heading, Inline, Paragraph, Strong, Table, Text
from .longer import kept
from .systems import mean

TITLE = "The papers' claims here"
READING = (
    "Verdicts are about this recipe alone - its size, data and budget, which are not the papers'. "
    f"'{AGREES}' is significant as claimed (paired bootstrap, p < {LEVEL} with each common seed), '{CONTRADICTS}' is "
    f"significant the other way, '{OPEN}' is neither. Where the claim is that two are equal, no significant difference "
    "agrees, which is weak evidence. The p value covers the choice of sentences, not how much trainings differ. Claims "
    "about longer input are judged by BLEU there; what is kept of each system's own BLEU stands beside it."
)


def claims(checked: Sequence[Checked], first: str) -> List[Block]:
    """A row for each claim that could be tested: who says what, the paper's figures, the difference here.

    Args:
        first: the test set that the longest one goes with.
    """
    if not checked:
        return []
    rows: List[List[Text]] = []
    for each in checked:
        claim, contradicts = each.claim, each.verdict == CONTRADICTS
        rows.append(
            [
                claim.paper,
                claim.text,
                Strong(each.verdict) if contradicts else each.verdict,
                [*label(each.better), " minus ", *label(each.than)],
                [Code(each.test), *_kept(each, first)],
                signed(each.difference.bleu),
                p_values(each.difference),
                claim.measured,
            ]
        )
    header = ["paper", "claim", "verdict here", "systems", "test set", "difference", "p", "measured by the paper"]
    return [Heading(3, TITLE), Paragraph(READING), Table(header, rows, left=(1, 2, 3, 4, 7))]


def _kept(each: Checked, first: str) -> List[Inline]:
    """For a claim about longer sentences, what both systems keep of their BLEU on the first test set."""
    if not each.claim.longest:
        return []
    shares = [kept(system, first, each.test) for system in (each.better, each.than)]
    return [f" (kept: {mean(shares[0].values()):.1f}% against {mean(shares[1].values()):.1f}%)"] if all(shares) else []


def summary(checked: Sequence[Checked]) -> List[Inline]:
    """How many claims agree, and each that is contradicted with its numbers; nothing if none could be tested."""
    if not checked:
        return []
    of = {verdict: [each for each in checked if each.verdict == verdict] for verdict in (AGREES, CONTRADICTS, OPEN)}
    numbers = f"{len(of[AGREES])} borne out, {len(of[CONTRADICTS])} contradicted, {len(of[OPEN])} open"
    text: List[Inline] = [f"{count(len(checked), 'claim')} of papers tested here: {numbers}."]
    for each in of[CONTRADICTS]:
        text += [f" Contradicted: {each.claim.text} ({each.claim.paper}) - here ", *label(each.better)]
        text += [f" has {signed(each.difference.bleu)} on ", Code(each.test), " against ", *label(each.than)]
        text.append(f", p {p_values(each.difference)}.")
    return text
