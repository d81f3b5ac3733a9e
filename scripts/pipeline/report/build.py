"""Makes the report on all runs from their result files alone: report.md, and report.html with pictures.

For each recipe it says which system is the best, by how much, how sure that is and what it costs; then a table, scores
by length, learning curves, some translations, and how it was run; then benchmarks, and how to read all this. It names
files that it cannot use, and leaves them out. The same result files give the same bytes.

Example: scripts/report.sh --results results --out /tmp/report --recipe demo
"""

import logging
from typing import Sequence

from ..command import Failure, Parser, run, to_path
from ..files import remove_leftovers, write_text
from ..lock import AS_LONG_AS_IT_TAKES, locked
from .pages import fill
from .pictures import draw
from .recipe import read_report
from .render import answers, to_html, to_markdown


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    results = "result files or folders of them, also those of scripts/benchmark.sh; repeat it for more"
    parser.add_argument("--results", type=to_path, nargs="+", action="extend", required=True, help=results)
    parser.add_argument("--out", type=to_path, required=True, help="output folder: report.html and report.md")
    parser.add_argument("--recipe", default="", help="report only this recipe (default: all)")
    baseline = "architecture to compare with (default: sinusoidal; of language models, learned)"
    parser.add_argument("--baseline", default="", help=baseline)
    pages = "Markdown pages whose tables and pictures between markers are made anew"
    parser.add_argument("--pages", type=to_path, nargs="+", action="extend", default=[], help=pages)
    args = parser.parse_args(argv)
    for path in [*args.results, *args.pages]:
        if not path.exists():
            raise Failure(f"{path} not found: give files that are there")
    logging.disable(logging.INFO)  # what fairseq says, and with it all packages
    with locked(args.out, AS_LONG_AS_IT_TAKES):
        report = read_report(args.results, args.recipe, args.baseline)
        for recipe in report.recipes:
            draw(recipe)
        files = {args.out / "report.md": to_markdown(report), args.out / "report.html": to_html(report)}
        for page in args.pages:
            files.update(fill(page, report))
        args.out.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            remove_leftovers(path.parent, f"{path.name}.")
            write_text(path, content)
    print(answers(report))
    print(f"Report: {args.out / 'report.html'}")


if __name__ == "__main__":
    run(main)
