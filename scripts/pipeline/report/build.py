"""Makes the report on all runs from their result files alone: report.md, and report.html with pictures.

For each recipe it says which system is the best, by how much, how sure that is and what it costs; then a table, scores
by length, learning curves, some translations, and how it was run; then benchmarks, and how to read all this. It names
files that it cannot use, and leaves them out. The same result files give the same bytes.

Example: scripts/report.sh --results results --out /tmp/report
"""

import logging
import re
from base64 import b64encode
from pathlib import Path
from statistics import fmean
from typing import Dict, Sequence, Tuple
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt

from ..command import Failure, Parser, to_path
from ..files import remove_leftovers, write_text
from ..lock import AS_LONG_AS_IT_TAKES, locked
from . import tables
from .comparison import LEVEL
from .pages import fill, project_pages
from .pictures import draw
from .recipe import Report, read_report
from .systems import differing_settings

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters.update(code=tables.code, text=tables.text)
TEMPLATES.globals.update(vars(tables), differing_settings=differing_settings, fmean=fmean, LEVEL=LEVEL)


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
    """The report as one HTML file that needs no other; the text under a heading of the third level is folded."""
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True}).enable("table")
    body = parser.render(to_markdown(report, with_pictures=True))
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    pictures: Dict[str, Tuple[str, bytes]] = {}
    for recipe in report.recipes:
        pictures |= {file: ("svg+xml", svg.encode()) for file, (_, svg) in recipe.pictures.items()}
        pictures |= {path.name: ("png", path.read_bytes()) for path in recipe.maps.values()}

    def figure(found: "re.Match[str]") -> str:
        kind, content = pictures[unquote(found[1])]
        image = f'<img src="data:image/{kind};base64,{b64encode(content).decode()}" alt=""/>'
        return f'<figure><div class="scroll">{image}</div><figcaption>{found[2]}</figcaption></figure>'

    body = re.sub(r'<p><img src="(.*?)" alt="(.*?)" /></p>', figure, body)
    beginning, *parts = re.split(r"(?=<h[23]>)", body)
    sections = [(part[2], *part[4:].split(f"</h{part[2]}>", 1)) for part in parts]  # level, heading, content
    return TEMPLATES.get_template("page.html.j2").render(beginning=beginning, sections=sections)


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    results = "result files or folders of them, also those of scripts/benchmark.sh; repeat it for more"
    parser.add_argument("--results", type=to_path, nargs="+", action="extend", required=True, help=results)
    parser.add_argument("--out", type=to_path, required=True, help="output folder: report.html and report.md")
    baseline = "architecture to compare with (default: sinusoidal; of language models, learned)"
    parser.add_argument("--baseline", default="", help=baseline)
    named = "Markdown pages whose tables and pictures between markers are made anew (without names: the project's)"
    parser.add_argument("--pages", type=to_path, nargs="*", metavar="PAGE", help=named)
    args = parser.parse_args(argv)
    pages = [] if args.pages is None else args.pages or project_pages()
    for path in [*args.results, *pages]:
        if not path.exists():
            raise Failure(f"{path} not found: give files that are there")
    logging.disable(logging.INFO)  # what fairseq says, and with it all packages
    with locked(args.out, AS_LONG_AS_IT_TAKES):
        report = read_report(args.results, args.baseline)
        for recipe in report.recipes:
            draw(recipe)
        files = {args.out / "report.md": to_markdown(report), args.out / "report.html": to_html(report)}
        for page in pages:
            files.update(fill(page, report))
        for path, content in files.items():
            remove_leftovers(path.parent, f"{path.name}.")
            write_text(path, content)
    print(answers(report))
    print(f"Report: {args.out / 'report.html'}")
