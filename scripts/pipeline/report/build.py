"""Makes the report about all runs that there are, from their result files alone: Markdown, HTML and pictures.

It says at a glance what is best and what it costs, which of the papers' claims hold here, and how variants compare;
then scores with deviation over seeds, significance, longer sentences, costs, learning curves, what positions
contribute, runs that did not finish, commands, and the papers' figures beside them. The same result files make the
same bytes. Without matplotlib there are no pictures.

Example: scripts/report.sh --results results --out /tmp/report --recipe demo
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..command import Failure, Parser, run, words_of
from ..files import write_text
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..results.file import ResultError, read_results
from .benchmarks import step_seconds, throughput
from .document import Block, Bullets, Code, Heading, Paragraph, Picture, Text, plain, to_html, to_markdown
from .published import PUBLISHED
from .section import Section, make_section
from .systems import System, group, unfinished

TITLE = "Results"
NO_PICTURES = "Left out: the pictures need matplotlib, which is not installed (pip install matplotlib)."
COLUMNS: Sequence[Text] = (
    ["sacreBLEU: 13a against the raw reference, comparable across tool chains"],
    ["moses: BLEU of plain Moses tokens of both sides"],
    ["moses+split: the same, ", Code("a-b"), " split into ", Code("a ##AT##-##AT## b"), ", as papers have it"],
    ["chrF2: character n-grams"],
    ["moses lc: as moses, lower-cased, as papers on Multi30k have it (about 41.0 for a text-only model of that size)"],
    ["fairseq: the line of fairseq-generate, on the tokens as trained, which split hyphens; inflated like moses+split"],
)


def sections(
    paths: Sequence[Path],
    recipe: Optional[str],
    archs: Sequence[str],
    seeds: Sequence[int],
    baseline: Optional[str],
    pictures: bool,
    about: Optional[str] = None,
) -> List[Section]:
    """A section for each recipe that has results, or for the one named.

    Args:
        about: the recipe that ``archs`` and ``seeds`` are expected of, and no other; of all if it is None.

    Raises:
        ResultError: nothing to report, or the baseline was not run.
    """
    results = read_results(paths)
    there = sorted({result["recipe"] for _, result in results})
    recipes = group([(path, result) for path, result in results if recipe in (None, result["recipe"])])
    if recipe is not None and not recipes:
        if not archs:
            names = ", ".join(there) or "none"
            raise ResultError(f"no result of recipe '{recipe}' in {_names(paths)}; recipes there: {names}")
        recipes = {recipe: []}
    elif set(recipes) & set(PUBLISHED):  # one table of a paper: what was not run is named too
        recipes.update({name: [] for name in PUBLISHED if name not in recipes})
    if not recipes:
        raise ResultError(f"no result file in {_names(paths)}: run scripts/reproduce.sh first")
    reason, steps = "" if pictures else NO_PICTURES, step_seconds(paths)
    parts = []
    for name, systems in sorted(recipes.items(), key=lambda item: -_training_pairs(item[1])):
        expected = (archs, seeds) if about in (None, name) else ((), ())
        parts.append(make_section(name, systems, *expected, baseline, reason, unfinished(results, name), steps))
    if baseline is not None and not any(section.baseline for section in parts):
        raise ResultError(f"the baseline '{baseline}' has no result in {_names(paths)}: run it, or name another")
    return parts


def _training_pairs(systems: Sequence[System]) -> int:
    """By which the recipes are ordered, so that the demo comes behind real data; 0 where it is not recorded."""
    pairs = [(result["data"].get("pairs") or {}).get("train") for system in systems for result in system.results]
    return max((number or 0 for number in pairs), default=0)


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def document(parts: Sequence[Section], speed: Sequence[Block] = ()) -> List[Block]:
    """The whole report: a line for each recipe, how to read the columns, a section for each recipe, and ``speed``."""
    blocks: List[Block] = [Heading(1, TITLE), Bullets([section.summary() for section in parts])]
    blocks.append(Paragraph("Of the columns with scores, all but the last are of the same detokenised output:"))
    blocks.append(Bullets(COLUMNS))
    for section in parts:
        blocks += section.blocks()
    return [*blocks, *speed]


def write(blocks: Sequence[Block], folder: Path) -> List[Path]:
    """Writes the report and its pictures; returns the files."""
    files: Dict[str, str] = {block.file: block.svg for block in blocks if isinstance(block, Picture)}
    files["report.md"], files["report.html"] = to_markdown(blocks), to_html(blocks, TITLE)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        help="result files, or folders of them, also with those of scripts/benchmark.sh; again for further ones",
    )
    parser.add_argument("--out", type=Path, required=True, help="gets report.html and report.md with its pictures")
    parser.add_argument("--recipe", help="only this one")
    parser.add_argument("--about", help="the recipe that --archs and --seeds are about (default: all)")
    parser.add_argument("--archs", nargs="+", default=[], help="architectures to have a row, run or not")
    parser.add_argument("--seeds", nargs="+", default=[], help="seeds to expect of each system")
    parser.add_argument("--baseline", help="what to compare with (default: sinusoidal positions, if they were run)")
    args = parser.parse_args(argv)
    archs, seeds = words_of(args.archs), words_of(args.seeds)
    if not all(seed.isdecimal() for seed in seeds):
        parser.error(f"--seeds must be whole numbers, not '{' '.join(seeds)}'")
    for path in args.results:
        if not path.exists():
            raise Failure(f"{path} not found: give the folder with the result files as --results")
    numbers, pictures = [int(seed) for seed in seeds], find_spec("matplotlib") is not None
    with locked(args.out, AS_LONG_AS_IT_TAKES):
        parts = sections(args.results, args.recipe, archs, numbers, args.baseline, pictures, args.about)
        write(document(parts, throughput(args.results)), args.out)
    print("\n".join(plain(section.summary()) for section in parts))
    print(f"Report: {args.out / 'report.html'}")


if __name__ == "__main__":
    run(main)
