"""Learning curves of the systems of a recipe, as SVG: the same input gives the same bytes. Needs matplotlib."""

from typing import TYPE_CHECKING, Any, Sequence, Tuple

from .svg import to_svg
from .systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Okabe and Ito's, told apart by the colour-blind as well, without their yellow."""

STYLES = ("-", "--", ":", "-.")
TICKS = (1, 1.5, 2, 3, 5, 7)
WIDTH, HEIGHT = 9.0, 4.2  # inches
UNITS = ((3 * 86400, 86400, "days"), (3 * 3600, 3600, "hours"), (300, 60, "minutes"), (0, 1, "seconds"))


def draw(systems: Sequence[System], curve: str, over: str) -> str:
    """One line for each run, one colour and style for each system, the legend in the order of the last values.

    Args:
        systems: those without runs are left out; their place decides on colour and style.
        curve: ``train`` or ``valid``.
        over: ``updates`` or ``seconds``.

    Returns:
        The SVG file's content.
    """

    def lines(figure: "Figure") -> None:
        axes = figure.subplots()
        unit, name = _unit(systems, curve) if over == "seconds" else (1, "updates")
        _lines(axes, systems, curve, over, unit)
        _ticks(axes)
        axes.set(xlabel=name, ylabel=f"{'validation' if curve == 'valid' else 'training'} loss, bits per token")
        axes.set_xlim(left=0)
        axes.grid(color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9, handlelength=2.8)

    return to_svg(WIDTH, HEIGHT, f"{curve} {over}", lines)


def _lines(axes: "Axes", systems: Sequence[System], curve: str, over: str, unit: int) -> None:
    runs = []
    for i, system in enumerate(system for system in systems if system.runs):
        look: Any = {"color": COLOURS[i % len(COLOURS)], "ls": STYLES[i // len(COLOURS) % len(STYLES)]}
        for number, result in enumerate(system.results):
            points = result["curve"][curve]
            if points["nll"]:
                runs.append((number > 0, points["nll"][-1], system.name, points, look))
    for further, _, label, points, look in sorted(runs, key=lambda run: (run[0], -run[1], run[2])):
        x = [value / unit for value in points[over]]
        axes.plot(x, points["nll"], label=None if further else label, lw=1.4, **look)


def _ticks(axes: "Axes") -> None:
    """A logarithmic axis, so that the end of training can be seen as well as its beginning, with round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([tick * 10.0**power for power in range(-4, 4) for tick in TICKS]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _unit(systems: Sequence[System], curve: str) -> Tuple[int, str]:
    longest = max((max(r["curve"][curve]["seconds"], default=0) for s in systems for r in s.results), default=0)
    return next((unit, name) for least, unit, name in UNITS if longest >= least)
