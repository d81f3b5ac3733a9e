"""The report about all runs that there are, from their result files alone: Markdown, HTML and pictures.

::

    report.py RESULTS... --out FOLDER [--recipe NAME] [--about NAME] [--archs "A B"] [--seeds "1 2"]

RESULTS are files that ``results.py`` made, or folders of them, where ``scripts/benchmark.sh`` may have put its own
beside them. FOLDER gets report.md with its pictures (.svg), and report.html, one file that holds everything. The same
result files make the same bytes. Needs no fairseq; without matplotlib there are no pictures.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..files import write_text
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
    made = []
    for name, systems in sorted(recipes.items(), key=lambda item: -_training_pairs(item[1])):
        expected = (archs, seeds) if about in (None, name) else ((), ())
        made.append(make_section(name, systems, *expected, baseline, reason, unfinished(results, name), steps))
    if baseline is not None and not any(section.baseline for section in made):
        raise ResultError(f"the baseline '{baseline}' has no result in {_names(paths)}: run it, or name another")
    return made


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", nargs="+", type=Path, help="result files, or folders of them")
    parser.add_argument("--out", type=Path, required=True, help="folder for report.md, report.html and the pictures")
    parser.add_argument("--recipe", help="only this one")
    parser.add_argument("--about", help="the recipe that --archs and --seeds are about (default: all)")
    parser.add_argument("--archs", default="", help="architectures to have a row, run or not")
    parser.add_argument("--seeds", default="", help="seeds to expect of each system")
    parser.add_argument("--baseline", help="architecture (default: sinusoidal positions, if there are results of it)")
    args = parser.parse_args()
    if not all(seed.isdecimal() for seed in args.seeds.split()):
        parser.error(f"--seeds must be whole numbers, not '{args.seeds}'")
    seeds, pictures = [int(seed) for seed in args.seeds.split()], find_spec("matplotlib") is not None
    try:
        parts = sections(args.results, args.recipe, args.archs.split(), seeds, args.baseline, pictures, args.about)
        write(document(parts, throughput(args.results)), args.out)
    except (ResultError, OSError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(plain(section.summary()) for section in parts))
    print(f"Report: {args.out / 'report.html'}")


if __name__ == "__main__":
    main()
