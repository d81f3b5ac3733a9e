"""The part of the report about one recipe, from its systems: tables, pictures and the sentences around them."""

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

from ..results.file import Result
from . import claims_table as report_claims
from . import curves, published
from . import glance as report_glance
from . import longer as report_longer
from . import positions as report_positions
from . import runs as report_runs
from . import variants as report_choices
from .cells import NOT_FINISHED, NOT_RUN, count, label, mean_bleu, signed
from .claims import check
from .comparison import LEVEL, Difference, choose_baseline, differences, ranked
from .document import Block, Code, Heading, Inline, Paragraph, Picture, Text
from .scores import scores
from .systems import System, evaluation_sets

PICTURES = (
    ("valid", "updates", "Validation loss against updates."),
    ("train", "updates", "Training loss against updates, without label smoothing, each point the mean of its updates."),
    ("valid", "seconds", "Validation loss against wall time."),
)


@dataclass
class Section:
    """What the report says about one recipe, and the one line about it for the beginning."""

    recipe: str
    systems: List[System]  # in the order of the rows
    seeds: List[int]  # that were asked for
    baseline: Optional[System]
    tests: List[str]  # the first one ranks
    validation: List[str] = field(default_factory=list)
    unfinished: List[Result] = field(default_factory=list)
    pictures: str = ""  # why there are none; empty if there are
    steps: Sequence[Dict[str, float]] = ()  # seconds of a training step by architecture, of each benchmark
    compared: Dict[str, Tuple[Dict[int, Difference], str]] = field(default_factory=dict)  # by test set

    def blocks(self) -> List[Block]:
        parts: List[Block] = [Heading(2, ["Recipe ", Code(self.recipe)]), *report_runs.data(self.systems)]
        parts += self._decisions()
        for test in [*self.tests, *self.validation]:
            if self.systems:
                parts += self._scores(test)
        if any(system.runs for system in self.systems):
            parts += report_longer.longer(self.systems, self.tests)
            for test in self.tests:
                parts += report_longer.by_length(self.systems, test)
            parts += [*report_runs.costs(self.systems), *self._curves()]
            parts += report_positions.blocks(self.recipe, self.systems, self.pictures)
        parts += report_runs.stopped(self.unfinished)
        if self.unfinished or any(system.runs for system in self.systems):
            parts += report_runs.commands(self.systems, self.baseline, self.unfinished)
        return parts

    def _decisions(self) -> List[Block]:
        """What a reader decides by, before all else that there is: at a glance, the papers' claims, variants."""
        longer = report_longer.longer_sets(self.systems, self.tests)
        first, valid = self.tests[0], self.validation[:1]
        checked = check(self.systems, first, longer[-1] if longer else None)
        by_place, said = self._differences(first)[0], report_claims.summary(checked)
        return [
            *report_glance.glance(self.systems, self.baseline, first, [*valid, *longer], by_place, said, self.steps),
            *report_claims.claims(checked, first),
            *report_choices.choices(self.systems, first, valid[0] if valid else None),
        ]

    def _scores(self, test: str) -> List[Block]:
        compared, validation = self._differences(test), test in self.validation
        return scores(self.recipe, self.systems, self.baseline, test, self.seeds, compared, validation)

    def summary(self) -> Text:
        """Recipe, systems and seeds, the best on the first test set, and how certain that is."""
        run = [system for system in self.systems if system.runs]
        missing = sum(not (system.runs or system.unfinished) for system in self.systems)
        stopped = f"{count(len(self.unfinished), 'run')} {NOT_FINISHED}" if self.unfinished else ""
        if not run:
            return [Code(self.recipe), f": {stopped or NOT_RUN}."]
        seeds = sorted({len(system.runs) for system in run})
        often = f"{seeds[0]} to {count(seeds[-1], 'seed')}" if len(seeds) > 1 else count(seeds[0], "seed")
        head: List[Inline] = [Code(self.recipe), f": {count(len(run), 'system')}, {often} each"]
        if missing:
            head.append(f", {missing} {NOT_RUN}")
        if stopped:
            head.append(f", {stopped}")
        scored = [system for system in run if self.tests and system.scores(self.tests[0], "sacrebleu")]
        if not scored:
            return [*head, "."]
        test, best = self.tests[0], ranked(scored, self.tests[0])[0]
        head += [". Best on ", Code(test), ": ", *label(best), f", {mean_bleu(best, test):.2f} sacreBLEU"]
        if self.baseline is None:
            return [*head, "; there is no baseline to compare with."]
        if best is self.baseline:
            return [*head, ", which is the baseline."]
        difference = self._differences(test)[0].get(self.systems.index(best))
        if difference is None:
            return [*head, "; it has no seed in common with the baseline ", *label(self.baseline), "."]
        head += [f": {signed(difference.bleu)} against the baseline ", *label(self.baseline)]
        common = "the one common seed" if len(difference.p) == 1 else f"each of {len(difference.p)} common seeds"
        return [*head, f", {'' if difference.significant else 'not '}significant (p < {LEVEL}) with {common}."]

    def _differences(self, test: str) -> Tuple[Dict[int, Difference], str]:
        if test not in self.compared:
            self.compared[test] = differences(self.systems, self.baseline, test) if self.baseline else ({}, "")
        return self.compared[test]

    def _curves(self) -> List[Block]:
        blocks: List[Block] = [Heading(3, "Learning curves")]
        if self.pictures:
            return [*blocks, Paragraph(self.pictures)]
        blocks.append(Paragraph("A line for each seed; the legend is in the order of the last values, highest first."))
        for curve, over, caption in PICTURES:
            svg = curves.draw(self.systems, curve, over)
            blocks.append(Picture(f"{re.sub('[^A-Za-z0-9_.-]', '_', self.recipe)}-{curve}-{over}.svg", svg, caption))
        return blocks


def make_section(
    recipe: str,
    systems: Sequence[System],
    archs: Sequence[str],
    seeds: Sequence[int],
    arch: Optional[str],
    pictures: str,
    unfinished: Sequence[Result] = (),
    steps: Sequence[Dict[str, float]] = (),
) -> Section:
    """Adds the systems that were asked for or published and not run, and chooses order and baseline."""
    tests, validation = evaluation_sets(systems)
    wanted = [*archs, *(figure.arch for figure in published.PUBLISHED.get(recipe, []))]
    if not tests:
        tests = [published.TEST_SET if recipe in published.PUBLISHED else "test"]
    known = {system.arch for system in systems if not system.variant}
    extra = [System(name) for name in {name: 0 for name in wanted} if name not in known]
    rows = [*ranked(systems, tests[0]), *extra]
    for system in rows:
        same = [result for result in unfinished if (result["arch"], result["variant"]) == (system.arch, system.variant)]
        system.unfinished = [int(result["seed"]) for result in same]
    baseline = choose_baseline(systems, arch)
    return Section(recipe, rows, sorted(seeds), baseline, tests, validation, list(unfinished), pictures, steps)
