"""Draws what positions contribute: RoPE's long-term decay, TUPE's correlations, any encoding's effective bias.

:mod:`.terms` defines the numbers.
"""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

import numpy as np
from torch import Tensor

from ..checkpoints.files import replacing
from .sides import encoding_name, stacks_of
from .terms import by_distance, load_model, long_term_decay, position_bias, tupe_correlations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120
SHARE = 0.99  # of the absolute values, where the colours end
COLUMNS = 4  # heat maps of TUPE in a row
ADDED = "added to the logits"
QUERY, KEY = "query position i", "key position j"


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches, drawn by Agg, without pyplot's state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_decay(dims: Sequence[int], bases: Sequence[float], max_distance: int) -> "Figure":
    """Draws one line for each number of channels and each base: :func:`long_term_decay`."""
    figure = new_figure(6.4, 4)
    axes = figure.subplots()
    for dim, base in itertools.product(dims, bases):
        axes.plot(long_term_decay(dim, base, max_distance).tolist(), label=f"d = {dim}, base {base:,.6g}", lw=1.2)
    axes.set(xlabel="relative distance, tokens", ylabel="relative upper bound", title="Long-term decay of RoPE")
    axes.set_xlim(0, max_distance)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def draw_maps(rows: Mapping[str, Any], columns: int, heading: str, label: str) -> "Figure":
    """Draws the heat maps ``(H, T, T)`` of each name, its heads in rows of at most ``columns``.

    All maps share one colour scale, white at 0. It ends at the 99th percentile of the absolute values, so single pairs
    do not pale the rest. nan, for keys that a query does not see, is grey.
    """
    maps = {name: np.array(values, dtype=float) for name, values in rows.items()}
    columns = min(columns, max(len(values) for values in maps.values()))
    limit = float(np.nanquantile(np.concatenate([np.abs(values).ravel() for values in maps.values()]), SHARE)) or 1.0
    cells = [(name, first) for name, values in maps.items() for first in range(0, len(values), columns)]
    figure = new_figure(1.7 * columns + 1.6, 1.8 * len(cells) + 1)
    grid = figure.subplots(len(cells), columns, squeeze=False, sharex=True, sharey=True)
    for panels, (name, first) in zip(grid, cells):
        panels[0].set_ylabel(name, fontsize=9)
        for axes, head in zip(panels, range(first, first + columns)):
            if head >= len(maps[name]):
                axes.set_axis_off()
                continue
            image = axes.imshow(maps[name][head], cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
            axes.set_facecolor("lightgrey")
            axes.set_title(f"head {head + 1}", fontsize=9)
            axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=grid, label=label, extend="both", shrink=min(1.0, 2.5 / len(cells)), aspect=25)
    _label(figure, heading, KEY, QUERY)
    return figure


def draw_distances(bias: Tensor, heading: str) -> "Figure":
    """Draws one panel for each layer and one line for each head of ``bias`` ``(layers, H, T, T)``, over ``j - i``."""
    from matplotlib import colormaps

    layers, heads, length = bias.shape[:3]
    columns = min(layers, 3 if layers % 3 == 0 else 2)
    rows = -(-layers // columns)
    figure = new_figure(3.2 * columns + 1.2, 2.6 * rows + 0.8)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[layers:]:
        axes.set_axis_off()
    for i, (axes, lines) in enumerate(zip(grid.flat, by_distance(bias))):
        for head, line in enumerate(lines):
            colour = colormaps["viridis"](head / max(heads, 2))
            axes.plot(range(1 - length, length), line.tolist(), color=colour, label=f"head {head + 1}", lw=1.2)
        axes.axhline(0, color="grey", lw=0.5)
        axes.set_title(f"layer {i + 1}", fontsize=9)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    _label(figure, heading, "distance j - i", "bias, counted from j = i")
    return figure


def _label(figure: "Figure", heading: str, below: str, left: str) -> None:
    figure.suptitle(heading, fontsize=11)
    figure.supxlabel(below, fontsize=10)
    figure.supylabel(left, fontsize=10)


def save_picture(figure: "Figure", path: Path) -> None:
    """Writes a PNG file beside its target and renames it."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def draw_tupe(folder: Path, side: Optional[str], length: int) -> "Figure":
    """Draws one heat map for each head: :func:`tupe_correlations` of a run's model, by default of its first side."""
    model = load_model(folder)
    side = side or next(iter(stacks_of(model)))
    heading = f"Learned correlations of positions\n{_where(model, side, folder)}"
    return draw_maps({side: tupe_correlations(model, side, length)}, COLUMNS, heading, ADDED)


def draw_bias(folder: Path, side: Optional[str], length: int, sentences: int, seed: int, by_distance: bool) -> "Figure":
    """Draws one heat map for each layer and head, or lines over ``j - i``: :func:`position_bias` of a run's model.

    It is of the model's first side by default.
    """
    model = load_model(folder)
    side = side or next(iter(stacks_of(model)))
    bias = position_bias(model, side, length, sentences, seed)
    heading = f"Effective position bias\n{_where(model, side, folder)}"
    if by_distance:
        return draw_distances(bias, heading)
    layers = {f"layer {layer + 1}": maps for layer, maps in enumerate(bias)}
    return draw_maps(layers, bias.size(1), heading, "logit, mean of each row = 0")


def _where(model: Any, side: str, folder: Path) -> str:
    return f"{encoding_name(model, side)} in the {side} of {'/'.join(folder.resolve().parts[-2:])}"
