"""The pictures of the report as SVG: the same input gives the same bytes, whatever the user's settings are."""

import io
import re
from importlib.util import find_spec
from statistics import fmean as mean
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ..scoring.metrics import METRICS
from .comparison import length_curve
from .recipe import RecipeResults
from .systems import SystemResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Okabe and Ito's colours, which colour-blind readers can also tell apart, without the yellow."""

BASELINE, OTHERS, GRID = "#000000", "#aaaaaa", "#eeeeee"
TICKS = [tick * 10.0**power for power in range(-2, 2) for tick in (1, 1.5, 2, 3, 5, 7)]
Drawn = Optional[Tuple[str, "Figure"]]
"""A caption and a figure; None if there is nothing to draw."""


def draw(recipe: RecipeResults) -> None:
    """Adds all pictures to a recipe; none without matplotlib."""
    if find_spec("matplotlib") is None:
        return
    import matplotlib

    for make in (scores, learning):
        file = re.sub("[^A-Za-z0-9_.-]", "_", f"{recipe.name}-{make.__name__}.svg")
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            settings = {"svg.hashsalt": file, "svg.fonttype": "path", "text.parse_math": False}
            matplotlib.rcParams.update({**settings, "axes.spines.top": False, "axes.spines.right": False})
            if made := make(recipe):
                metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
                made[1].savefig(output := io.StringIO(), format="svg", metadata=metadata)
                recipe.pictures[file] = made[0], output.getvalue()


def _figure(panels: int, height: float) -> Tuple["Figure", List["Axes"]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _lines(recipe: RecipeResults) -> Dict[SystemResults, Dict[str, Any]]:
    """The systems whose curves are drawn, the best ones without variants and the baseline, and how."""
    plain = [system for system in recipe.systems if not system.variant and system is not recipe.baseline]
    colours = {**dict(zip(plain, COLOURS)), **({recipe.baseline: BASELINE} if recipe.baseline else {})}
    return {s: {"color": colours[s], "label": recipe.short(s)} for s in recipe.systems if s in colours}


def scores(recipe: RecipeResults) -> Drawn:
    """All systems on the first test set, and BLEU by length, each in a panel if there is something to see."""
    systems, lines, first, metric = recipe.scored, _lines(recipe), recipe.tests[0], METRICS[recipe.metric]
    sets = [name for name in recipe.tests if name.startswith(first)]
    curves = [(system, name, points) for system in lines for name in sets if (points := length_curve(system, name))]
    if len(systems) < 2 and not curves:
        return None
    figure, panels = _figure((len(systems) > 1) + bool(curves), max(3.6, 0.2 * len(systems) + 1))
    captions = []
    if len(systems) > 1:
        axes = panels[0]
        for place, system in enumerate(systems):
            found, score = recipe.differences.get(system), mean(recipe.scores(system).values())
            bars = (
                [[found.value - found.interval[0]], [found.interval[1] - found.value]]
                if found and found.interval
                else None
            )
            look: Dict[str, Any] = {"color": lines[system]["color"] if system in lines else OTHERS, "marker": "o"}
            if system is recipe.baseline:
                look["marker"] = "D"
                axes.axvline(score, color=OTHERS, lw=0.8, zorder=0)
            axes.errorbar(score, place, xerr=bars, ms=5, capsize=3, **look)
        axes.set_yticks(range(len(systems)), [recipe.short(system) for system in systems], fontsize=8)
        where = "average" if recipe.is_tuned else f"{metric.name} {metric.arrow} on {first}"
        axes.set(ylim=(len(systems) - 0.4, -0.6), xlabel=where)
        axes.grid(axis="x", color=GRID, lw=0.6)
        if any(found.interval for found in recipe.differences.values()):
            captions.append("Bars: the 95% interval of the difference to the baseline, in black.")
    if curves:
        axes = panels[-1]
        for system, name, points in curves:
            style: Dict[str, Any] = {} if name == first else {"label": None, "ls": "--"}
            axes.plot(*zip(*points), marker=".", lw=1.3, **{**lines[system], **style})
        axes.set(xlabel="source words", ylabel=metric.name, ylim=(0, None), xlim=(0, None))
        axes.grid(color=GRID, lw=0.6)
        axes.legend(frameon=False, fontsize=8)
        captions.append("BLEU by source length" + ("; dashed: longer test sets." if len(sets) > 1 else "."))
    return " ".join(captions), figure


def learning(recipe: RecipeResults) -> Drawn:
    """Losses over updates, of the first seed of each system."""
    from matplotlib.ticker import FixedLocator, NullLocator

    lines = {system: look for system, look in _lines(recipe).items() if system.results[0].curve["valid"]["nll"]}
    if recipe.is_tuned or not lines:
        return None
    figure, panels = _figure(2, 3.6)
    for axes, (curve, what) in zip(panels, (("train", "training"), ("valid", "validation"))):
        for system, look in lines.items():
            points = system.results[0].curve[curve]
            axes.plot(points["updates"], points["nll"], lw=1.3, **look)
        axes.set_yscale("log")  # shows the end of training as well as its beginning, with round numbers
        axes.yaxis.set(major_locator=FixedLocator(TICKS), minor_locator=NullLocator(), major_formatter="{x:g}")
        axes.set(xlabel="updates", ylabel=f"{what} loss, bits per token", xlim=(0, None))
        axes.grid(color=GRID, lw=0.6)
    panels[-1].legend(frameon=False, fontsize=8)
    return "Learning curves of the first seed. The training loss is without label smoothing.", figure
