"""Draws what positions contribute: RoPE's long-term decay, TUPE's correlations, any encoding's effective bias.

::

    python -m fairseq_rope.inspection.pictures decay --rope-dim 64 128 --out decay.png
    python -m fairseq_rope.inspection.pictures tupe RUN --out correlations.png
    python -m fairseq_rope.inspection.pictures bias RUN --side decoder --out bias.png

What exactly is drawn is said in :mod:`.position_terms`. RUN is a model folder, as ``scripts/average.sh`` makes it.
"""

import argparse
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Sequence

import numpy as np
from torch import Tensor

from ..options import SIDES
from .terms import by_distance, encoding_name, load_model, long_term_decay, position_bias, tupe_correlations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120
COLUMNS = 4  # heat maps of one row, where they have no natural order
QUERY, KEY = "query position i", "key position j"


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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        figure.savefig(temporary, format="png")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pictures", description=(__doc__ or "").split("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    decay = kinds.add_parser("decay", help="RoPE's long-term decay")
    decay.add_argument("--rope-dim", type=int, nargs="+", default=[128], help="channels of a head (default: 128)")
    decay.add_argument("--rope-base", type=float, nargs="+", default=[10000.0], help="(default: 10000)")
    decay.add_argument("--max-distance", type=int, default=250, help="in tokens (default: 250)")
    tupe = kinds.add_parser("tupe", help="TUPE's learned correlations of positions")
    bias = kinds.add_parser("bias", help="any encoding's effective position bias")
    for kind, length in ((tupe, 64), (bias, 32)):
        kind.add_argument("folder", type=Path, help="model folder of a run")
        kind.add_argument("--side", choices=SIDES, default="encoder", help="(default: encoder)")
        kind.add_argument("--length", type=int, default=length, help=f"positions (default: {length})")
    bias.add_argument("--sentences", type=int, default=256, help="random sentences to average over (default: 256)")
    bias.add_argument("--seed", type=int, default=1, help="of the sentences (default: 1)")
    bias.add_argument("--by-distance", action="store_true", help="the mean by distance j - i instead of heat maps")
    for kind in (decay, tupe, bias):
        kind.add_argument("--out", type=Path, required=True, help="the PNG file to write")
    return parser


def _draw(args: argparse.Namespace) -> "Figure":
    if args.kind == "decay":
        return draw_decay(args.rope_dim, args.rope_base, args.max_distance)
    model = load_model(args.folder)
    run = "/".join(args.folder.resolve().parts[-2:])
    where = f"{encoding_name(model, args.side)} in the {args.side} of {run}"
    if args.kind == "tupe":
        maps = tupe_correlations(model, args.side, args.length)
        titles = [f"head {head + 1}" for head in range(len(maps))]
        columns = min(COLUMNS, len(maps))
        return draw_maps(maps, titles, columns, f"Learned correlations of positions\n{where}", "added to the logits")
    values = position_bias(model, args.side, args.length, args.sentences, args.seed)
    heading = f"Effective position bias\n{where}"
    if args.by_distance:
        return draw_distances(values, heading)
    layers, heads = values.shape[:2]
    titles = [f"layer {layer + 1}, head {head + 1}" for layer in range(layers) for head in range(heads)]
    return draw_maps(values.flatten(0, 1), titles, heads, heading, "logit, mean of each row = 0")


def main(argv: Optional[Sequence[str]] = None) -> None:
    args = _parser().parse_args(argv)
    if args.out.suffix != ".png":
        sys.exit(f"error: --out must end in .png, not {args.out.name!r}")
    if find_spec("matplotlib") is None:
        sys.exit("error: matplotlib is missing: install it with pip install -e '.[plot]'")
    try:
        save_picture(_draw(args), args.out)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{args.out}: {args.kind}")


if __name__ == "__main__":
    logging.disable(logging.INFO)  # of fairseq and matplotlib
    main()
