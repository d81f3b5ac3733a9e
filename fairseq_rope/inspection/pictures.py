"""Draws what positions contribute: RoPE's long-term decay, TUPE's correlations, any encoding's effective bias.

::

    fairseq-rope plot decay --rope-dim 64 128 --out decay.png
    fairseq-rope plot tupe RUN --out correlations.png
    fairseq-rope plot bias RUN --side decoder --out bias.png

What exactly is drawn is said in :mod:`.terms`. RUN is a model folder, as ``scripts/average.sh`` makes it.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np
from torch import Tensor

from ..checkpoints.files import replacing
from .terms import by_distance, encoding_name, load_model, long_term_decay, position_bias, tupe_correlations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120
COLUMNS = 4  # heat maps of one row, where they have no natural order
QUERY, KEY = "query position i", "key position j"


def require_matplotlib() -> None:
    """Raises ValueError if the package is not installed."""
    if find_spec("matplotlib") is None:
        raise ValueError("matplotlib is not installed: run scripts/install.sh, or pip install 'fairseq_rope[plot]'")


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches, drawn by Agg; no state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_decay(dims: Sequence[int], bases: Sequence[float], max_distance: int) -> "Figure":
    """One line for each dimension and base, of :func:`long_term_decay`."""
    figure = new_figure(6.4, 4)
    axes = figure.subplots()
    for dim in dims:
        for base in bases:
            axes.plot(long_term_decay(dim, base, max_distance).tolist(), label=f"d = {dim}, base {base:g}", lw=1.2)
    axes.set(xlabel="relative distance", ylabel="relative upper bound", title="Long-term decay of RoPE")
    axes.set_xlim(0, max(max_distance, 1))
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def draw_maps(maps: Tensor, titles: Sequence[str], columns: int, heading: str, label: str) -> "Figure":
    """Heat maps ``(N, T, T)`` row by row in a grid, with one colour scale, white at 0, for all of them.

    The scale ends at the largest but one per cent of the absolute values, so that single pairs do not pale the rest.
    """
    rows = -(-len(maps) // columns)
    limit = float(np.nanquantile(maps.abs().double().numpy(), 0.99)) or 1.0
    figure = new_figure(1.7 * columns + 1.6, 1.8 * rows + 1)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for axes, values, title in zip(grid.flat, maps, titles):
        image = axes.imshow(values.double().numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        axes.set_facecolor("lightgrey")  # what a query does not see
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
    figure.colorbar(image, ax=grid, label=label, extend="both", shrink=min(1.0, 2.5 / rows), aspect=25)
    _label(figure, heading, KEY, QUERY)
    return figure


def draw_distances(bias: Tensor, heading: str) -> "Figure":
    """One panel for each layer and one line for each head of ``bias`` ``(layers, H, T, T)``, over ``j - i``."""
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


def draw_tupe(folder: Path, side: str, length: int) -> "Figure":
    """One heat map for each head, of :func:`tupe_correlations` of a run's model."""
    model = load_model(folder)
    maps = tupe_correlations(model, side, length)
    titles = [f"head {head + 1}" for head in range(len(maps))]
    heading = f"Learned correlations of positions\n{_where(model, side, folder)}"
    return draw_maps(maps, titles, min(COLUMNS, len(maps)), heading, "added to the logits")


def draw_bias(folder: Path, side: str, length: int, sentences: int, seed: int, by_distance: bool) -> "Figure":
    """One heat map for each layer and head, of :func:`position_bias` of a run's model; or lines over ``j - i``."""
    model = load_model(folder)
    bias = position_bias(model, side, length, sentences, seed)
    heading = f"Effective position bias\n{_where(model, side, folder)}"
    if by_distance:
        return draw_distances(bias, heading)
    layers, heads = bias.shape[:2]
    titles = [f"layer {layer + 1}, head {head + 1}" for layer in range(layers) for head in range(heads)]
    return draw_maps(bias.flatten(0, 1), titles, heads, heading, "logit, mean of each row = 0")


def _where(model: Any, side: str, folder: Path) -> str:
    return f"{encoding_name(model, side)} in the {side} of {'/'.join(folder.resolve().parts[-2:])}"
