"""The part of the report about one recipe, from its systems: tables, pictures and the sentences around them."""

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

if __package__:
    from . import curves, published, report_positions, report_runs
    from .comparison import LEVEL, Difference, choose_baseline, differences, length_table, ranked
    from .document import Block, Bullets, Code, Heading, Inline, Paragraph, Picture, Strong, Table, Text
    from .report_cells import NOT_RUN, by_system, count, label, signed, system_rows, with_deviation
    from .systems import System, mean
else:  # run by path
    import curves  # type: ignore[no-redef, import-not-found]
    import published  # type: ignore[no-redef, import-not-found]
    import report_positions  # type: ignore[no-redef, import-not-found]
    import report_runs  # type: ignore[no-redef, import-not-found]
    from comparison import (  # type: ignore[no-redef, import-not-found]
        LEVEL,
        Difference,
        choose_baseline,
        differences,
        length_table,
        ranked,
    )
    from document import (  # type: ignore[no-redef, import-not-found]
        Block,
        Bullets,
        Code,
        Heading,
        Inline,
        Paragraph,
        Picture,
        Strong,
        Table,
        Text,
    )
    from report_cells import (  # type: ignore[no-redef, import-not-found]
        NOT_RUN,
        by_system,
        count,
        label,
        signed,
        system_rows,
        with_deviation,
    )
    from systems import System, mean  # type: ignore[no-redef, import-not-found]

SCORES = {
    "sacrebleu": "sacreBLEU",
    "bleu_moses": "moses",
    "bleu_moses_compound_split": "moses+split",
    "chrf": "chrF2",
    "bleu_fairseq_training_tokens": "fairseq",
}
"""Keys of the scores in a result file, to the columns, which have the names of score.sh's table."""

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
    tests: List[str]
    pictures: str = ""  # why there are none; empty if there are
    compared: Dict[str, Tuple[Dict[int, Difference], str]] = field(default_factory=dict)  # by test set

    def blocks(self) -> List[Block]:
        parts: List[Block] = [Heading(2, ["Recipe ", Code(self.recipe)]), *report_runs.data(self.systems)]
        for test in self.tests:
            parts += self._scores(test)
        if any(system.runs for system in self.systems):
            for test in self.tests:
                parts += self._lengths(test)
            parts += [*report_runs.costs(self.systems), *self._curves()]
            parts += report_positions.blocks(self.recipe, self.systems, self.pictures)
            parts += report_runs.commands(self.systems, self.baseline)
        return parts

    def summary(self) -> Text:
        """Recipe, systems and seeds, the best on the first test set, and how certain that is."""
        run = [system for system in self.systems if system.runs]
        missing = len(self.systems) - len(run)
        if not run:
            return [Code(self.recipe), f": {NOT_RUN}."]
        seeds = sorted({len(system.runs) for system in run})
        often = f"{seeds[0]} to {count(seeds[-1], 'seed')}" if len(seeds) > 1 else count(seeds[0], "seed")
        head: List[Inline] = [Code(self.recipe), f": {count(len(run), 'system')}, {often} each"]
        if missing:
            head.append(f", {missing} not run")
        scored = [system for system in run if self.tests and system.scores(self.tests[0], "sacrebleu")]
        if not scored:
            return [*head, "."]
        test, best = self.tests[0], ranked(scored, self.tests[0])[0]
        head += [". Best on ", Code(test), ": ", *label(best), f", {_mean(best, test):.2f} sacreBLEU"]
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

    def _scores(self, test: str) -> List[Block]:
        figures = published.published(self.recipe, test)
        found, signature = self._differences(test)
        best = max((_mean(s, test) for s in self.systems if s.scores(test, "sacrebleu")), default=None)

        def cells(system: System) -> List[Text]:
            row: List[Text] = [_seeds(system, test, self.seeds)]
            for key in SCORES:
                values = list(system.scores(test, key).values())
                text = with_deviation(values) if values else NOT_RUN
                row.append(Strong(text) if key == "sacrebleu" and values and mean(values) == best else text)
            if figures:
                row.insert(4, "")
            return row + _difference(system is self.baseline, found.get(self.systems.index(system)))

        header: List[Text] = ["system", "seeds", *SCORES.values(), "difference", "p"]
        if figures:
            header.insert(5, "papers' moses+split")
        rows = system_rows(self.systems, cells, len(header) - 1)
        for row, system in zip(rows, self.systems):
            if figures:  # also where nothing was run
                row[5] = _published(system, figures)
        blocks: List[Block] = [Heading(3, ["Scores on ", Code(test), *self._sentences(test)])]
        blocks.append(Paragraph(self._reading(found)))
        blocks.append(Table(header, rows, left=(1,)))
        if figures:
            sources: List[Text] = [
                [f"{f.bleu} (", Code(f.arch), f", {published.KIND}): {f.source}"] for f in figures.values()
            ]
            blocks += [Paragraph(published.READING), Bullets(sources)]
        return [*blocks, *self._signatures(test, signature)]

    def _sentences(self, test: str) -> List[str]:
        counts = {entry["sentences"] for system in self.systems for entry in system.tests(test).values()}
        return [f" ({count(counts.pop(), 'sentence')})"] if len(counts) == 1 else []

    def _reading(self, found: Dict[int, Difference]) -> Text:
        text: List[Inline] = ["Mean ± standard deviation over seeds (one seed: its score)."]
        if self.baseline and found:
            text += [" Difference: sacreBLEU minus that of the baseline ", *label(self.baseline)]
            text.append(", over the seeds that both have. p: sacrebleu's paired bootstrap over the sentences, seed by ")
            text.append(f"seed; * marks p < {LEVEL} with each of them. It knows nothing of how much trainings differ, ")
            text.append("and of many systems that are equally good some fall below by chance.")
        return text

    def _signatures(self, test: str, paired: str) -> List[Block]:
        items: List[Text] = []
        for key, title in SCORES.items():
            found = [(s, e["scores"].get(key, {})) for s in self.systems for e in s.tests(test).values()]
            for signature in by_system([(system, score.get("signature", "")) for system, score in found]):
                items.append([f"{title}: ", Code(signature)])
        if paired:
            items.append(["p: ", Code(paired)])
        decoding = [(s, e["settings"]) for s in self.systems for e in s.tests(test).values()]
        items += [["decoding: ", setting] for setting in by_system(decoding)]
        return [Paragraph("Signatures:"), Bullets(items)] if items else []

    def _lengths(self, test: str) -> List[Block]:
        header, values = length_table(self.systems, test)
        if not header:
            return []
        places = {id(system): row for system, row in zip(self.systems, values)}

        def cells(system: System) -> List[Text]:
            row = places[id(system)]
            return [f"{value:.2f}" for value in row] if row else [NOT_RUN, *[""] * (len(header) - 1)]

        title: Text = ["BLEU by source length on ", Code(test)]
        reading = (
            "sacreBLEU of the sentences whose source has so many words, mean over seeds; their number is in brackets."
        )
        columns = [f"{words} ({sentences:,})" for words, sentences in header]
        table = Table(["system", *columns], system_rows(self.systems, cells, len(columns)))
        return [Heading(3, title), Paragraph(reading), table]

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
) -> Section:
    """Adds the systems that were asked for or published and not run, and chooses order and baseline."""
    tests = list({name: 0 for system in systems for result in system.results for name in result["tests"]})
    wanted = [*archs, *(figure.arch for figure in published.PUBLISHED.get(recipe, []))]
    if not tests:
        tests = [published.TEST_SET if recipe in published.PUBLISHED else "test"]
    known = {system.arch for system in systems if not system.variant}
    extra = [System(name) for name in {name: 0 for name in wanted} if name not in known]
    rows = [*ranked(systems, tests[0]), *extra]
    return Section(recipe, rows, sorted(seeds), choose_baseline(systems, arch), tests, pictures)


def _mean(system: System, test: str) -> float:
    return mean(system.scores(test, "sacrebleu").values())


def _published(system: System, figures: Dict[str, published.Published]) -> str:
    return str(figures[system.arch].bleu) if system.arch in figures and not system.variant else ""


def _seeds(system: System, test: str, wanted: Sequence[int]) -> str:
    have = sorted(system.scores(test, "sacrebleu"))
    missing = [seed for seed in wanted if seed not in have]
    parts = [", ".join(map(str, have))] if have else []
    parts += [f"{', '.join(map(str, missing))} {NOT_RUN}"] if missing else []
    return "; ".join(parts) or NOT_RUN


def _difference(is_baseline: bool, difference: Optional[Difference]) -> List[Text]:
    if is_baseline:
        return ["baseline", ""]
    if difference is None:
        return ["", ""]
    values = " / ".join(f"{difference.p[seed]:.4f}" for seed in sorted(difference.p))
    return [signed(difference.bleu), f"{values} *" if difference.significant else values]
