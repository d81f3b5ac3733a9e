"""What positions contribute, as SVG for the report: TUPE's correlations and RoPE's long-term decay.

Drawn from the numbers in result files, as :mod:`.pictures` draws them from a model. Needs numpy and matplotlib.
"""

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Sequence

import numpy as np

from .curves import COLOURS, HEIGHT, STYLES, WIDTH
from .svg import to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_DISTANCE = 250  # tokens, as in the paper's figure
COLUMNS = 8  # heads in a row, at most
SHARE = 0.99
"""The colours end at this quantile of the absolute values, so that single pairs do not pale the rest."""


class Rotation(NamedTuple):
    """What the decay depends on: rotated channels of a head, base, and what positions are divided by."""

    dim: int
    base: float
    stretch: float

    def __str__(self) -> str:
        stretched = f", positions / {self.stretch:g}" if self.stretch != 1 else ""
        return f"d = {self.dim}, base {self.base:,.6g}{stretched}"


def long_term_decay(rotation: Rotation, max_distance: int = MAX_DISTANCE) -> np.ndarray:
    """RoPE's relative upper bound (RoFormer eq. 29 and Fig. 2) for distances 0 to ``max_distance``, fp64.

    As ``position_terms.long_term_decay``, without torch: ``1/(d/2) sum_m |S_m|``, m = 1..d/2, with
    ``S_m = sum_{n<m} exp(i * distance * theta_n)``, where each term is rounded to fp32, as the encoding does it.
    """
    theta = rotation.base ** (np.arange(0, rotation.dim, 2) / -rotation.dim)
    angles = np.arange(max_distance + 1)[:, None] / rotation.stretch * theta  # (max_distance + 1, d/2)
    terms = np.exp(1j * angles).astype(np.complex64).astype(np.complex128)
    return np.abs(terms.cumsum(axis=-1)).mean(axis=-1)


def draw_decay(rotations: Sequence[Rotation]) -> str:
    """One line for each rotation."""

    def lines(figure: "Figure") -> None:
        axes = figure.subplots()
        for i, rotation in enumerate(rotations):
            look: Any = {"color": COLOURS[i % len(COLOURS)], "ls": STYLES[i // len(COLOURS) % len(STYLES)]}
            axes.plot(long_term_decay(rotation), label=str(rotation), lw=1.4, **look)
        axes.set(xlabel="relative distance, tokens", ylabel="relative upper bound")
        axes.set_xlim(0, MAX_DISTANCE)
        axes.set_ylim(bottom=0)
        axes.grid(color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper right", frameon=False, fontsize=9)

    return to_svg(WIDTH, HEIGHT, "decay", lines)


def draw_maps(sides: Dict[str, List[Any]], salt: str) -> str:
    """Heat maps of each side, its heads in a row, with one colour scale, white at 0, for all of them.

    Args:
        sides: name to ``(H, T, T)``, None where a query does not see a key.
        salt: as of :func:`.svg.to_svg`.
    """
    maps = {side: np.array(values, dtype=float) for side, values in sides.items()}  # None becomes nan
    columns = min(COLUMNS, max(len(values) for values in maps.values()))
    limit = float(np.nanquantile(np.concatenate([np.abs(values).ravel() for values in maps.values()]), SHARE)) or 1.0
    cells = [(side, first) for side, values in maps.items() for first in range(0, len(values), columns)]

    def grid(figure: "Figure") -> None:
        panels = figure.subplots(len(cells), columns, squeeze=False, sharex="col", sharey=True)
        for row, (side, first) in zip(panels, cells):
            row[0].set_ylabel(side, fontsize=9)
            for axes, head in zip(row, range(first, first + columns)):
                if head >= len(maps[side]):
                    axes.set_axis_off()
                    continue
                image = axes.imshow(maps[side][head], cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
                axes.set_facecolor("lightgrey")  # what a query does not see
                axes.set_title(f"head {head + 1}", fontsize=9)
                axes.tick_params(labelsize=7)
        figure.colorbar(image, ax=panels, extend="both", shrink=min(1.0, 2.5 / len(cells)), aspect=25).set_label(
            "added to the logits", fontsize=9
        )
        figure.supxlabel("key position j", fontsize=10)
        figure.supylabel("query position i", fontsize=10)

    return to_svg(1.7 * columns + 1.6, 1.8 * len(cells) + 0.6, salt, grid)
