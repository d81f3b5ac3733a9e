"""The pictures of the report as SVG: the same input gives the same bytes, whatever the user's settings are.

It needs matplotlib. The plugin draws what positions contribute, and is imported only for that.
"""

import io
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from .comparison import Difference
from .data import Report, printable
from .recipe import Recipe
from .runs import grouped
from .systems import Label, Spread, System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BETTER, WORSE, ALIKE, UNTESTED = "#0072B2", "#D55E00", "#999999", "#56B4E9"
COLOURS = (BETTER, WORSE, "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Okabe and Ito's colours, which colour-blind readers can also tell apart, without the yellow."""

STYLES = ("-", "--", ":", "-.")
TICKS = [tick * 10.0**power for power in range(-4, 4) for tick in (1, 1.5, 2, 3, 5, 7)]
CURVES = ("valid", "train")
SIDES = ("encoder", "decoder")
MAX_DISTANCE = 250  # tokens, as in the paper's figure
HEADS = 8  # in a row, at most
PANELS = 3  # in a row, at most


def draw(report: Report) -> None:
    """Adds all pictures to the report; none without matplotlib."""
    report.has_pictures = find_spec("matplotlib") is not None
    if not report.has_pictures:
        return
    scored = [recipe for recipe in report.recipes if recipe["answer"]]
    if scored:
        _add(report, ["scores"], _scores, scored)
    for recipe in report.recipes:
        for curve in CURVES:
            _draw_curves(report, recipe, f"{curve}-updates", curve, recipe["ran"])
        # wall times depend on what else the machine did; those of steps were measured in turn
        timed = {system: step for system, step in zip(recipe["ran"], recipe["step"]) if step}
        if len(timed) > 1:
            _draw_curves(report, recipe, "valid-time", "valid", list(timed), timed, str(recipe["baseline"].label))
        _draw_positions(report, recipe)


def _add(report: Report, names: Sequence[str], make: Callable[..., "Figure"], *args: Any) -> str:
    """Draws a picture, and returns the unique name of its file."""
    stem = re.sub("[^A-Za-z0-9_.-]", "_", "-".join(names))[:200]
    files = [f"{stem}{number or ''}.svg" for number in range(len(report.pictures) + 1)]
    file = next(file for file in files if file not in report.pictures)
    report.pictures[file] = to_svg(file, make, *args)
    return file


def to_svg(salt: str, make: Callable[..., "Figure"], *args: Any) -> str:
    """The figure that ``make`` returns, as the content of an SVG file; ``salt`` determines the ids in it."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings = {"svg.hashsalt": salt, "svg.fonttype": "path", "font.size": 10, "text.parse_math": False}
        matplotlib.rcParams.update({**settings, "axes.spines.top": False, "axes.spines.right": False})
        output = io.StringIO()
        metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
        make(*args).savefig(output, format="svg", metadata=metadata)
    return output.getvalue()


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _scores(recipes: Sequence[Recipe]) -> "Figure":
    """Draws a panel for each recipe: each system's score, its deviation, and whether it differs from the baseline."""
    from matplotlib.lines import Line2D

    columns = min(PANELS, len(recipes))
    lines = -(-len(recipes) // columns)
    height = 0.24 * max(len(recipe["ran"]) for recipe in recipes) + 1
    figure = _figure(4 * columns + 1 if columns > 1 else 7, height * lines + 0.3)
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, recipe in zip(panels, recipes):
        _panel(axes, recipe)
    for axes in panels[len(recipes) :]:
        axes.set_axis_off()
    looks = {"better than the baseline": BETTER, "worse": WORSE, "no significant difference": ALIKE}
    others = [found for recipe in recipes for system, _, found in _scored(recipe) if system is not recipe["baseline"]]
    tested = {found is not None and found.p is not None for found in others}
    if False in tested:
        looks = {**(looks if True in tested else {}), "not tested": UNTESTED}
    handles = [Line2D([], [], color=colour, marker="o", ls="", label=text) for text, colour in looks.items()]
    handles.append(Line2D([], [], color="k", marker="D", ls="", label="baseline"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _scored(recipe: Recipe) -> List[Tuple[System, Spread, Optional[Difference]]]:
    """The systems that have a score on the first test set, with it and the difference to the baseline."""
    first = recipe["sets"][0]
    return [row for row in zip(recipe["systems"], first["scores"][recipe["key"]], first["differences"]) if row[1]]


def _panel(axes: "Axes", recipe: Recipe) -> None:
    name, metric, scored = recipe["sets"][0]["name"], recipe["metric"], _scored(recipe)
    for place, (system, score, found) in enumerate(scored):
        colour = (BETTER if found.better else WORSE) if found and found.significant else ALIKE
        colour = colour if found and found.p is not None else UNTESTED
        look: Any = {"color": colour, "marker": "o"}
        if system is recipe["baseline"]:
            look = {"color": "k", "marker": "D"}
            axes.axvline(score.mean, color="#bbbbbb", lw=0.8, zorder=0)
        axes.errorbar(score.mean, place, xerr=score.deviation, ls="", ms=5, capsize=3, **look)
    axes.set_yticks(range(len(scored)), _short([system.label for system, _, _ in scored]), fontsize=8)
    axes.set_ylim(len(scored) - 0.4, -0.6)
    axes.set_title(printable(recipe["name"]), fontsize=10)
    axes.set_xlabel(f"{metric.name} {metric.arrow} on {printable(name)}", fontsize=9)
    axes.grid(axis="x", color="#eeeeee", lw=0.6)


def _short(labels: Sequence[Label]) -> List[str]:
    """The names of systems, without the size if all have the same one."""
    ends = {label.arch.rpartition("_")[2] for label in labels}
    cut = len(ends.pop()) + 1 if len(ends) == 1 and all("_" in label.arch for label in labels) else 0
    return [printable(Label(label.arch[: len(label.arch) - cut], label.variant)) for label in labels]


def _draw_curves(report: Report, recipe: Recipe, name: str, curve: str, systems: Sequence[System], *args: Any) -> None:
    if any(result["curve"][curve]["nll"] for system in systems for result in system.results):
        recipe["pictures"][name] = _add(report, [recipe["name"], name], _curves, systems, curve, *args)


def _curves(
    systems: Sequence[System], curve: str, steps: Optional[Dict[System, float]] = None, baseline: str = ""
) -> "Figure":
    """Draws one line for each run, in one style for each system, with the legend in the order of the last values.

    Args:
        curve: ``train`` or ``valid``.
        steps: the time of an update of each system, that of ``baseline`` being 1; without it, over updates.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = _figure(9, 4.2)
    axes = figure.subplots()
    runs = []
    for place, system in enumerate(systems):
        look: Any = {"color": COLOURS[place % len(COLOURS)], "ls": STYLES[place // len(COLOURS) % len(STYLES)]}
        for number, result in enumerate(system.results):
            points = result["curve"][curve]
            if points["nll"]:
                places = [update * (steps[system] if steps else 1) for update in points["updates"]]
                runs.append((number > 0, -points["nll"][-1], printable(system.label), places, points["nll"], look))
    for further, _, label, places, losses, look in sorted(runs, key=lambda run: run[:3]):
        axes.plot(places, losses, label=None if further else label, lw=1.4, **look)
    axes.set_yscale("log")  # shows the end of training as well as its beginning, with round numbers
    axes.yaxis.set_major_locator(FixedLocator(TICKS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set(
        xlabel=f"time, in updates of {printable(baseline)}" if steps else "updates",
        ylabel=f"{'validation' if curve == 'valid' else 'training'} loss, bits per token",
    )
    axes.set_xlim(left=0)
    axes.grid(color="#dddddd", lw=0.6)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9, handlelength=2.8)
    return figure


def _draw_positions(report: Report, recipe: Recipe) -> None:
    """Draws TUPE's correlations of each system, and RoPE's decay with a line for each rotation in the recipe."""
    correlations = [(system.label, *_first(system, "correlations")) for system in recipe["ran"]]
    rotary = [(system.label, entry) for system in recipe["ran"] for entry in _first(system, "base")[1].values()]
    if not rotary and not any(sides for _, _, sides in correlations):
        return
    from fairseq_rope.inspection.pictures import ADDED, draw_decay, draw_maps
    from fairseq_rope.inspection.terms import Rotation

    for label, seed, sides in correlations:
        if sides:
            maps = {side: entry["correlations"] for side, entry in sides.items()}
            names = [recipe["name"], str(label), "correlations"]
            encodings = ", ".join(dict.fromkeys(entry["encoding"] for entry in sides.values()))
            file = _add(report, names, draw_maps, maps, HEADS, "", ADDED)
            recipe["correlations"].append((file, label, seed, encodings, " above ".join(sides)))
    if rotary:
        named = [(label, Rotation(entry["dim"], entry["base"], entry["stretch"])) for label, entry in rotary]
        rotations = sorted(grouped(named, all_named=True))
        lines = [rotation for rotation, _ in rotations]
        recipe["pictures"]["decay"] = _add(report, [recipe["name"], "decay"], draw_decay, lines, MAX_DISTANCE)
        recipe["rotations"] = [(str(rotation), labels) for rotation, labels in rotations]


def _first(system: System, key: str) -> Tuple[int, Dict[str, Any]]:
    """The first seed that has ``key`` on a side, and the sides that have it; no sides if there is no such seed."""
    for seed in system.seeds:
        positions = system.runs[seed].get("positions", {})
        sides = {side: positions[side] for side in SIDES if key in positions.get(side, {})}
        if sides:
            return seed, sides
    return 0, {}
