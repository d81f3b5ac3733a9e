"""Tables and a picture between markers in README.md, docs/ and results/, made from the result files.

A block begins with a comment that asks, and ends with ``<!-- end -->``::

    <!-- report: scores RECIPE [plain]: COLUMN, COLUMN -->   the systems of a recipe; plain: without variants
    <!-- report: cards RECIPE -->                            a card for each of its systems
    <!-- report: claims RECIPE -->                           what its rows say of two systems must hold
    <!-- report: cases -->                                   likewise, in "... in [`RECIPE`](LINK)"; other rows stay
    <!-- report: speed FILE FILE: PATTERN -->                the candidates of benchmarks that match
    <!-- report: picture RECIPE -->                          the file in the link is drawn
"""

import re
from pathlib import Path
from typing import Dict

from ..command import Failure
from .comparison import Difference
from .recipe import Recipe, Report
from .tables import cards, change, p_value, speed_table, system_table, table

BLOCK = re.compile(r"(<!-- report: (\w+)(?: ([^:\n]*?))?(?:: (.*?))? -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
COMPARED = r"`([^`]*)` (>|≈|<) `([^`]*)`(?: on `([^`]*)`)?"
CLAIM = re.compile(rf"^\| ([^|]*\S) \| {COMPARED} \|", re.MULTILINE)
EVIDENCE = re.compile(rf"{COMPARED} in \[`([^`]*)`\]")
LINK = re.compile(r"!\[.*?\]\((.*?)\)")


def fill(page: Path, report: Report) -> Dict[Path, str]:
    """The page with its blocks made anew, and its pictures, by path.

    Raises:
        Failure: a row of a block of claims says what the results do not.
    """
    files: Dict[Path, str] = {}
    recipes = {recipe.name: recipe for recipe in report.recipes}
    benchmarks = {file.name: file for file in report.benchmarks}

    def block(found: "re.Match[str]") -> str:
        kind, names, more = found[2], (found[3] or "").split(), found[4] or ""
        if kind == "scores":
            made = system_table(recipes[names[0]], more.split(", ") if more else (), "plain" in names)
        elif kind == "cards":
            made = cards(recipes[names[0]])
        elif kind == "claims":
            made = _claims(page, recipes[names[0]], found[5])
        elif kind == "cases":
            made = _cases(page, recipes, found[5])
        elif kind == "speed":
            made = speed_table([benchmarks[name] for name in names], more)
        else:
            caption, svg = recipes[names[0]].pictures[f"{names[0]}-scores.svg"]
            (link,) = LINK.findall(found[5])
            files[page.parent / link] = svg
            made = f"![{caption}]({link})"
        return f"{found[1]}{made}\n"

    return {page: BLOCK.sub(block, page.read_text(encoding="utf-8")), **files}


def _difference(page: Path, recipe: Recipe, text: str, one: str, relation: str, other: str, test: str) -> Difference:
    """The difference of two systems; it must be as ``text`` says: ``>`` better, ``≈`` undecided, ``<`` worse."""
    systems, sets = {recipe.short(system): system for system in recipe.systems}, [*recipe.tests, *recipe.validation]
    found = recipe.difference(systems[one], systems[other], next(name for name in sets if name.endswith(test)))
    if found is None or found.relation != relation:
        raise Failure(f"{page}: '{text}' does not hold in {recipe.name}: {found and found.relation}: correct it")
    return found


def _claims(page: Path, recipe: Recipe, rows: str) -> str:
    """The table of claims with the figures of today."""
    made = []
    for text, one, relation, other, test in CLAIM.findall(rows):
        found = _difference(page, recipe, text, one, relation, other, test)
        where = f" on `{test}`" if test else ""
        made.append([text, f"`{one}` {relation} `{other}`{where}", change(found), p_value(found)])
    return table(list(zip(["", "systems", "difference (95% interval)", "p"], zip(*made))), left=2)


def _cases(page: Path, recipes: Dict[str, Recipe], rows: str) -> str:
    """The table of cases, each with an encoding and the evidence for it, with the figures of today."""
    made = []
    for row in rows.splitlines()[2:]:
        case, encoding, evidence = (cell.strip() for cell in row.split("|")[1:4])
        figures = ["" if "](" in evidence else "not measured", ""]
        if named := EVIDENCE.search(evidence):
            found = _difference(page, recipes[named[5]], case, *named.groups("")[:4])
            figures = [change(found), p_value(found)]
        made.append([case, encoding, evidence, *figures])
    return table(list(zip(["your case", "encoding", "evidence", "difference (95% interval)", "p"], zip(*made))), left=3)
