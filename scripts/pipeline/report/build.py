"""Makes the report on all runs from their result files alone: Markdown, HTML and pictures.

It says which system is best, by how much, how sure that is and what it costs; then which of the papers' claims hold
here, how variants compare, scores with deviation over seeds, significance, longer sentences, costs, learning curves,
what positions contribute, runs that did not finish, commands, and throughput. It names files that it cannot use, and
leaves them out. The same result files give the same bytes. Without matplotlib there are no pictures.

Example: scripts/report.sh --results results --out /tmp/report --recipe demo
"""

import logging
from pathlib import Path
from typing import Dict, Sequence

from ..command import Failure, Parser, run, seeds_of, to_path, words_of
from ..files import write_text
from ..lock import AS_LONG_AS_IT_TAKES, locked
from .data import Report, Wanted, read_report
from .pictures import draw


def write(report: Report, folder: Path) -> str:
    """Writes the report and its pictures; returns the answer of each recipe, for a terminal."""
    try:
        from .render import answers, to_html, to_markdown
    except ModuleNotFoundError as error:  # of an environment that is older than the templates
        raise Failure(f"the report needs {error.name}, which is not installed: run scripts/install.sh") from None
    markdown = to_markdown(report)
    files: Dict[str, str] = {**report.pictures, "report.md": markdown}
    files["report.html"] = to_html(markdown, report.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)
    return answers(report)


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument(
        "--results",
        type=to_path,
        nargs="+",
        action="extend",
        required=True,
        help="result files or folders of them, also those of scripts/benchmark.sh; repeat it for more",
    )
    parser.add_argument(
        "--out", type=to_path, required=True, help="output folder: report.html, and report.md with its pictures"
    )
    parser.add_argument("--recipe", help="report only this recipe (default: all)")
    parser.add_argument("--about", help="the recipe that --archs and --seeds are about (default: all)")
    parser.add_argument(
        "--archs", nargs="+", action="extend", default=[], help="architectures that have a row even if not run"
    )
    parser.add_argument("--seeds", nargs="+", action="extend", default=[], help="seeds to expect of each system")
    parser.add_argument(
        "--baseline", help="architecture to compare with (default: sinusoidal; of language models, learned)"
    )
    args = parser.parse_args(argv)
    seeds = seeds_of(parser, words_of(args.seeds))
    for path in args.results:
        if not path.exists():
            raise Failure(f"{path} not found: give the folder with the result files as --results")
    wanted = Wanted(args.recipe, words_of(args.archs), seeds, args.about, args.baseline)
    logging.disable(logging.INFO)  # what fairseq says, and with it all packages
    with locked(args.out, AS_LONG_AS_IT_TAKES):
        report = read_report(args.results, wanted)
        draw(report)
        said = write(report, args.out)
    print(said)
    print(f"Report: {args.out / 'report.html'}")


if __name__ == "__main__":
    run(main)
