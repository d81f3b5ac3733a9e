"""Tables and a picture between markers in README.md, docs/ and results/, made from the result files.

A block begins with a comment that asks, and ends with ``<!-- end -->``::

    <!-- report: scores RECIPE [plain]: COLUMN, COLUMN -->   the systems of a recipe; plain: without variants
    <!-- report: cards RECIPE -->                            a card for each of its systems
    <!-- report: claims RECIPE -->                           what its rows say of two systems must hold
    <!-- report: cases -->                                   likewise, "... in [`RECIPE`](LINK)"; other rows stay
    <!-- report: speed FILE FILE: PATTERN -->                the candidates of benchmarks that match
    <!-- report: lengths FILE FILE: PATTERN -->              likewise: relative time and MiB by the length of sentences
    <!-- report: picture RECIPE -->                          the file in the link is drawn
"""

import re
from pathlib import Path
from typing import Dict, List, Mapping

from ..command import Failure
from ..paths import ROOT
from ..scoring.metrics import METRICS
from ..scoring.scored import BLEU
from .recipe import RecipeResults, Report
from .systems import metric_of
from .tables import cards, change, lengths_table, p_value, speed_table, system_table, table

BLOCK = re.compile(r"(<!-- report: (\w+)(?: ([^:\n]*?))?(?:: (.*?))? -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
EVIDENCE = re.compile(r"`([^`]*)` (>|≈|<) `([^`]*)`(?: on `([^`]*)`)?(?: in \[`([^`]*)`\])?")
LINK = re.compile(r"!\[.*?\]\((.*?)\)")


def project_pages() -> List[Path]:
    """The pages of the project that have blocks."""
    pages = sorted(path for folder in (ROOT, ROOT / "docs", ROOT / "results") for path in folder.glob("*.md"))
    return [page for page in pages if BLOCK.search(page.read_text(encoding="utf-8"))]


def fill(page: Path, report: Report) -> Dict[Path, str]:
    """The page with its blocks made anew, and its pictures, by path."""
    files: Dict[Path, str] = {}
    recipes = {recipe.name: recipe for recipe in report.recipes}
    benchmarks = {file.name: file for file in report.benchmarks}

    def block(found: "re.Match[str]") -> str:
        kind, names, more = found[2], (found[3] or "").split(), found[4] or ""
        if kind == "scores":
            made = system_table(recipes[names[0]], more.split(", ") if more else (), "plain" in names)
        elif kind == "cards":
            made = cards(recipes[names[0]])
        elif kind in ("claims", "cases"):
            made = _with_figures(page, recipes, "".join(names), found[5])
        elif kind in ("speed", "lengths"):
            made = (speed_table if kind == "speed" else lengths_table)([benchmarks[name] for name in names], more)
        elif kind == "picture":
            caption, svg = recipes[names[0]].pictures[f"{names[0]}-scores.svg"]
            (link,) = LINK.findall(found[5])
            files[page.parent / link] = svg
            made = f"![{caption}]({link})"
        else:
            raise KeyError(kind)
        return f"{found[1]}{made}\n"

    try:
        return {page: BLOCK.sub(block, page.read_text(encoding="utf-8")), **files}
    except KeyError as error:
        raise Failure(f"{page}: a block names {error}, which does not exist: correct it") from None


def _with_figures(page: Path, recipes: Mapping[str, RecipeResults], usual: str, rows: str) -> str:
    """A table whose last columns, difference and p, follow from the one before them.

    That says of two systems which is better: on the first test set, unless it names another, or its end; in the
    ``usual`` recipe, unless it names another.
    """
    (*heads, _, _), _, *lines = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines())
    made = []
    for *cells, evidence, _, _ in lines:
        figures = ["" if "](" in evidence else "not measured", ""]
        if named := EVIDENCE.search(evidence):
            one, relation, other, test, name = named.groups("")
            recipe = recipes[name or usual]
            sets = [each for each in (*recipe.tests, *recipe.validation) if each.endswith(test)]
            if not sets:
                raise KeyError(test)
            systems = {recipe.short(system): system for system in recipe.systems}
            found = recipe.difference(systems[one], systems[other], sets[0])
            if found is None or found.relation != relation:
                raise Failure(f"{page}: '{cells[0]}' does not hold: {found and found.relation}: correct it")
            metric = metric_of(recipe.systems, sets[0])
            unit = "" if metric == BLEU else f" {METRICS[metric].name}"
            figures = [f"{change(found)}{unit}", p_value(found)]
        made.append([*cells, evidence, *figures])
    return table(list(zip([*heads, "difference in BLEU (95% interval)", "p"], zip(*made))), left=len(heads))
