"""Renders the report as Markdown, from the templates, and as one HTML file, from that Markdown.

The templates escape all text from result files, so it never becomes markup in either form.
"""

import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from ..scoring.kinds import METRICS
from .comparison import LEVEL, Difference
from .data import Report, printable
from .recipe import Recipe
from .systems import Spread, System
from .tuned import Column, Tuned

TEMPLATES = Path(__file__).parent / "templates"
MARKS = re.compile(r"([\\`*_\[\]|~#])")
STARTS = re.compile(r"^(\d*)([-+=>.)])(?=[-=]*(?:\s|$))")
"""Text that begins a list, a quotation or an underline at the beginning of a line."""


CODE = re.compile(r"(?<![\\`])(`+)(?!`).+?(?<!`)\1(?!`)")


def text(value: Any) -> Markup:
    """Any value as text in Markdown; values that are Markdown already stay as they are."""
    if isinstance(value, Markup):
        return value
    escaped = MARKS.sub(r"\\\1", printable(value).replace("&", "&amp;").replace("<", "&lt;"))
    return Markup(STARTS.sub(r"\1\\\2", escaped))


def code(value: Any) -> Markup:
    """Text in a fixed font."""
    content = printable(value).strip()
    fence = "`" * (max((len(run) for run in re.findall("`+", content)), default=0) + 1)
    space = " " if content.startswith("`") or content.endswith("`") else ""
    return Markup(f"{fence}{space}{content}{space}{fence}" if content else "")


def label(system: Any) -> Markup:
    """The name of a system, given as such, as its label or as a result: its architecture, and what tells it apart."""
    named = (system["arch"], system["variant"]) if isinstance(system, dict) else getattr(system, "label", system)
    arch, variant = named
    return Markup(f"{code(arch)}{f' ({text(variant)})' if variant else ''}")


def labels(systems: Sequence[Any]) -> Markup:
    """The names of systems: one, one and another, or a list with commas."""
    names = [label(system) for system in systems]
    return Markup(" and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names))


def of(systems: Sequence[Any]) -> Markup:
    """The names of some systems in brackets; empty if they are all systems."""
    return Markup(f" ({labels(systems)})" if systems else "")


def count(value: int, what: str) -> str:
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def parameters(system: System) -> str:
    return whole(system.parameters) if system.runs else ""


def number(value: Optional[float], after: str = "", digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}{after}"


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


def spread(value: Optional[Spread], best: Optional[float] = None, digits: int = 2) -> Markup:
    """Mean and deviation, in bold type for the best."""
    if value is None:
        return Markup("not run")
    mean, deviation = (number(part, "", digits) for part in value)
    shown = f"{mean}±{deviation}" if deviation else mean
    return Markup(f"**{shown}**" if value.mean == best else shown)


def scored(column: Sequence[Optional[Spread]], recipe: Recipe, best: Optional[float] = None, digits: int = 2) -> Any:
    """A column with the scores of all systems of a recipe."""
    cells = zip(column, recipe["systems"])
    return ["not scored" if one is None and system.runs else spread(one, best, digits) for one, system in cells]


def change(found: Optional[Difference]) -> str:
    """A difference, with a star if it is significant."""
    return f"{signed(found.value)}{'*' if found.significant else ''}" if found else ""


def against(found: Sequence[Optional[Difference]], recipe: Recipe) -> List[str]:
    """A column with the differences of all systems to the baseline."""
    pairs = zip(found, recipe["systems"])
    return ["baseline" if system is recipe["baseline"] else change(one) for one, system in pairs]


def mean(found: Optional[Difference], which: int) -> str:
    """The mean of the scores behind a difference: 0 for the other system, 1 for its own."""
    return number(found.means[which]) if found else ""


def p_value(found: Optional[Difference]) -> str:
    return "" if found is None or found.p is None else f"{found.p:.4f}"


def p(found: Sequence[Optional[Difference]]) -> List[Tuple[str, List[str]]]:
    """A column with the p values; no column if nothing was tested."""
    column = [p_value(one) for one in found]
    return [("p", column)] if any(column) else []


def rated(column: Column) -> List[Markup]:
    """A column of fine-tuning, with the chosen learning rates."""
    cells = [spread(score, column.best) for score in column.scores]
    return [Markup(f"{cell} ({text(rate)})") if rate else cell for cell, rate in zip(cells, column.rates)]


def apart(tuned: Tuned) -> List[str]:
    """A column with the differences of the averages to the baseline's."""
    pairs = zip(tuned["labels"], tuned["differences"])
    return ["baseline" if one == tuned["baseline"] else "" if found is None else signed(found) for one, found in pairs]


def seeds(system: System, test: str, metric: str) -> str:
    """The seeds that have a test set, those that lack it, those that did not finish, and those that are missing."""
    have = sorted(system.scores(test, metric))
    lacking = [seed for seed in system.seeds if seed not in have]
    stopped = [seed for seed in system.unfinished if seed not in [*have, *lacking]]
    missing = [seed for seed in sorted(system.wanted) if seed not in [*have, *lacking, *stopped]]
    parts = [(have, ""), (lacking, " not scored"), (stopped, " not finished"), (missing, " not run")]
    return "; ".join(f"{', '.join(map(str, some))}{what}" for some, what in parts if some) or "not run"


def _escaped(found: "re.Match[str]") -> str:
    """Code in a table, whose cells end at a ``|`` even there."""
    return found[0].replace("|", r"\|")


def grid(rows: Iterable[Sequence[Any]], head: Sequence[Any], left: int = 1) -> Markup:
    """A table whose first columns are aligned to the left."""
    rule = "|".join("---" if place < left else "---:" for place in range(len(head)))
    lines = [" | ".join(CODE.sub(_escaped, text(cell).strip()) for cell in row) for row in [head, *rows]]
    return Markup("\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]))


def table(columns: Sequence[Tuple[Any, Sequence[Any]]], left: int = 1) -> Markup:
    """A table from its columns, each a head and the cells; the shortest column determines its length."""
    return grid(zip(*(cells for _, cells in columns)), [head for head, _ in columns], left)


FILTERS = (
    code,
    label,
    labels,
    of,
    count,
    whole,
    number,
    signed,
    scored,
    change,
    against,
    mean,
    p_value,
    seeds,
    parameters,
    rated,
    apart,
    grid,
    table,
)


def environment() -> Environment:
    """Jinja2 with our filters, for Markdown; it escapes what templates print."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,  # does not escape Markdown again
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    made.filters.update({each.__name__: each for each in FILTERS})
    made.globals.update(LEVEL=LEVEL, METRICS=METRICS, p=p)
    return made


def to_markdown(report: Report) -> str:
    """The report as GitHub's Markdown; pictures are files beside it."""
    made = environment().get_template("report.md.j2").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", made, flags=re.MULTILINE)).strip() + "\n"


def answers(report: Report) -> str:
    """The answer of each recipe, for a terminal."""
    made = environment().get_template("answers.md.j2").render(report=report)
    inline = [token.children or [] for token in MarkdownIt().parse(made) if token.type == "inline"]
    return "\n".join("".join(child.content or " " for child in children) for children in inline)


def to_html(markdown: str, pictures: Dict[str, str]) -> str:
    """Markdown as one HTML file that needs nothing else, well-formed as XML, with a table of contents.

    The text under a heading of the third level is folded. The Markdown contains no HTML, and each ``<`` in a text is
    escaped, so every tag here comes from the parser.

    Args:
        pictures: file to SVG, for the pictures in ``markdown``.
    """
    body = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True}).enable("table").render(markdown)
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    body = re.sub(r"<tr>\n<td(.*?)</td>", r'<tr>\n<th scope="row"\1</th>', body)
    body = re.sub(r'<p><img src="(.*?)" alt="(.*?)" /></p>', lambda found: _figure(found[1], found[2], pictures), body)
    beginning, *parts = re.split(r"(?=<h[23]>)", body)
    sections = []  # level, id, heading, content
    for number, part in enumerate(parts, 1):
        heading, content = part[4:].split("</h", 1)
        sections.append((int(part[2]), f"s{number}", Markup(heading), Markup(content[3:])))
    page = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return page.get_template("page.html.j2").render(beginning=Markup(beginning), sections=sections)


def _figure(file: str, caption: str, pictures: Dict[str, str]) -> str:
    """The image without its prolog, and with ids that differ from those of other images on the page."""
    svg = pictures[file][pictures[file].index("<svg") :].strip()
    prefix = re.sub(r"\W", "-", file)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"(url\(|href=\")#", rf"\1#{prefix}-", svg)
    picture = f'<div class="picture" role="img" aria-label="{caption}">{svg}</div>'
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
