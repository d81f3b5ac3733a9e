"""The part of the report about what positions contribute: TUPE's correlations and RoPE's long-term decay, drawn."""

import re
from typing import Any, Dict, List, Sequence, Tuple

from .document import Block, Heading, Paragraph, Picture
from .position_figures import Rotation, draw_decay, draw_maps
from .systems import System

TITLE = "What positions contribute"
SIDES = ("encoder", "decoder")
CORRELATIONS = (
    "TUPE's learned correlations of positions (TUPE, eqs. 7, 8 and 10, Fig. 5): what query position i adds to the "
    "logit of key position j, whatever the words are; in TUPE-R with the bias of the distance's bucket. Red raises "
    "attention and blue lowers it: a band along the diagonal is a head that looks at near words, a stripe from top to "
    "bottom one that looks at fixed places; grey is what the decoder does not see. No position holds </s>. The colours "
    "end at the largest but one per cent of the values. Positions that no sentence in training had, and unless the "
    "reset is off the decoder's first, which always holds </s>, still have the vectors that they were initialised with."
)
DECAY = (
    "RoPE's long-term decay (RoFormer, eq. 29 and Fig. 2): the factor of the upper bound of a rotated query's product "
    "with a rotated key that depends on their distance. The lower the line, the less two words so far apart can count "
    "for each other. It follows from the rotated channels d and the base; nothing of it is learned, so that all seeds "
    "have it in common."
)


def blocks(recipe: str, systems: Sequence[System], left_out: str) -> List[Block]:
    """Pictures of the systems whose result files have an entry ``positions`` with something to draw.

    Args:
        left_out: why there are no pictures, which the learning curves say already; empty if there are.
    """
    if left_out:
        return []
    parts = [*_correlations(recipe, systems), *_decay(recipe, systems)]
    return [Heading(3, TITLE), *parts] if parts else []


def _first(system: System, key: str) -> Tuple[int, Dict[str, Any]]:
    """The first seed that has ``key`` on a side, and its sides that have it; no sides if there is no such seed."""
    for seed, result in zip(system.seeds, system.results):
        positions = result.get("positions", {})
        sides = {side: positions[side] for side in SIDES if key in positions.get(side, {})}
        if sides:
            return seed, sides
    return 0, {}


def _correlations(recipe: str, systems: Sequence[System]) -> List[Block]:
    parts: List[Block] = []
    for system in systems:
        seed, sides = _first(system, "correlations")
        if not sides:
            continue
        name = _file(recipe, system.name, "correlations")
        svg = draw_maps({side: entry["correlations"] for side, entry in sides.items()}, name)
        names = list({entry["encoding"]: 0 for entry in sides.values()})
        caption = f"Learned correlations of positions ({', '.join(names)}) of {system.name}, seed {seed}: "
        parts.append(Picture(name, svg, f"{caption}{' above '.join(sides)}, one column for each head."))
    return [Paragraph(CORRELATIONS), *parts] if parts else []


def _decay(recipe: str, systems: Sequence[System]) -> List[Block]:
    about: Dict[Rotation, Dict[str, None]] = {}
    for system in systems:
        for entry in _first(system, "base")[1].values():
            rotation = Rotation(entry["dim"], entry["base"], entry["stretch"])
            about.setdefault(rotation, {})[system.name] = None
    if not about:
        return []
    rotations = sorted(about)
    names = "; ".join(f"{rotation}: {', '.join(about[rotation])}" for rotation in rotations)
    svg = draw_decay(rotations)
    return [Paragraph(DECAY), Picture(_file(recipe, "decay"), svg, f"Long-term decay of RoPE. {names}.")]


def _file(*names: str) -> str:
    return re.sub("[^A-Za-z0-9_.-]", "_", "-".join(names)) + ".svg"
