"""Renders the report as Markdown, from the templates, and as one HTML file, from that Markdown."""

import re
from base64 import b64encode
from pathlib import Path
from statistics import fmean

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt

from ..scoring.metrics import METRICS
from .comparison import LEVEL
from .recipe import Report
from .tables import change, code, conditions, p_value, speed_table, system_table, table, text

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
FUNCTIONS = (change, code, conditions, fmean, p_value, speed_table, system_table, table, text)
TEMPLATES.filters.update(code=code, text=text)
TEMPLATES.globals.update({each.__name__: each for each in FUNCTIONS}, METRICS=METRICS, LEVEL=LEVEL)


def to_markdown(report: Report, with_pictures: bool = False) -> str:
    """The report as GitHub's Markdown; only :func:`to_html` has pictures."""
    made = TEMPLATES.get_template("report.md.j2").render(report=report, with_pictures=with_pictures)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", made, flags=re.MULTILINE)).strip() + "\n"


def answers(report: Report) -> str:
    """The answer of each recipe, for a terminal."""
    template = TEMPLATES.get_template("answer.md.j2")
    lines = [f"{recipe.name}: {template.render(recipe=recipe)}" for recipe in report.recipes]
    return "\n".join(" ".join(line.replace("`", "").split()) for line in lines)


def to_html(report: Report) -> str:
    """The report as one HTML file that needs no other, well-formed as XML.

    The text under a heading of the third level is folded. Our Markdown contains no HTML, and each ``<`` in a text is
    escaped, so every tag here comes from the parser.
    """
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True}).enable("table")
    body = parser.render(to_markdown(report, with_pictures=True))
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    pictures = {file: svg for recipe in report.recipes for file, (_, svg) in recipe.pictures.items()}

    def figure(found: "re.Match[str]") -> str:
        image = f'<img src="data:image/svg+xml;base64,{b64encode(pictures[found[1]].encode()).decode()}" alt=""/>'
        return f'<figure><div class="scroll">{image}</div><figcaption>{found[2]}</figcaption></figure>'

    body = re.sub(r'<p><img src="(.*?)" alt="(.*?)" /></p>', figure, body)
    beginning, *parts = re.split(r"(?=<h[23]>)", body)
    sections = [(part[2], *part[4:].split(f"</h{part[2]}>", 1)) for part in parts]  # level, heading, content
    return TEMPLATES.get_template("page.html.j2").render(beginning=beginning, sections=sections)
