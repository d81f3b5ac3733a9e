"""The part of the report about one recipe, from its systems: tables, pictures and the sentences around them."""

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

if __package__:
    from . import curves, published
    from .comparison import LEVEL, Difference, choose_baseline, differences, length_table, ranked
    from .document import Block, Bullets, Code, Heading, Inline, Listing, Paragraph, Picture, Strong, Table, Text, plain
    from .result_file import Result
    from .systems import System, mean, mean_and_deviation
else:  # run by path
    import curves  # type: ignore[no-redef, import-not-found]
    import published  # type: ignore[no-redef, import-not-found]
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
        Listing,
        Paragraph,
        Picture,
        Strong,
        Table,
        Text,
        plain,
    )
    from result_file import Result  # type: ignore[no-redef, import-not-found]
    from systems import System, mean, mean_and_deviation  # type: ignore[no-redef, import-not-found]

NOT_RUN = "not run"
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
        parts: List[Block] = [Heading(2, ["Recipe ", Code(self.recipe)]), *self._data()]
        for test in self.tests:
            parts += self._scores(test)
        if any(system.runs for system in self.systems):
            for test in self.tests:
                parts += self._lengths(test)
            parts += [*self._costs(), *self._curves(), *self._commands()]
        return parts

    def summary(self) -> Text:
        """Recipe, systems and seeds, the best on the first test set, and how certain that is."""
        run = [system for system in self.systems if system.runs]
        missing = len(self.systems) - len(run)
        if not run:
            return [Code(self.recipe), f": {NOT_RUN}."]
        seeds = sorted({len(system.runs) for system in run})
        counts = " to ".join(str(count) for count in {seeds[0]: 0, seeds[-1]: 0})
        head: List[Inline] = [Code(self.recipe), f": {_count(len(run), 'system')}, {counts} seed{_s(seeds)} each"]
        if missing:
            head.append(f", {missing} not run")
        scored = [system for system in run if self.tests and system.scores(self.tests[0], "sacrebleu")]
        if not scored:
            return [*head, "."]
        test, best = self.tests[0], ranked(scored, self.tests[0])[0]
        head += [". Best on ", Code(test), ": ", *_label(best), f", {_mean(best, test):.2f} sacreBLEU"]
        if self.baseline is None:
            return [*head, "; there is no baseline to compare with."]
        if best is self.baseline:
            return [*head, ", which is the baseline."]
        difference = self._differences(test)[0].get(self.systems.index(best))
        if difference is None:
            return [*head, "; it has no seed in common with the baseline ", *_label(self.baseline), "."]
        head += [f": {_signed(difference.bleu)} against the baseline ", *_label(self.baseline)]
        common = "the one common seed" if len(difference.p) == 1 else f"each of {len(difference.p)} common seeds"
        return [*head, f", {'' if difference.significant else 'not '}significant (p < {LEVEL}) with {common}."]

    def _differences(self, test: str) -> Tuple[Dict[int, Difference], str]:
        if test not in self.compared:
            self.compared[test] = differences(self.systems, self.baseline, test) if self.baseline else ({}, "")
        return self.compared[test]

    def _data(self) -> List[Block]:
        found = [(system, _data_line(result["data"])) for system in self.systems for result in system.results]
        return [Paragraph(f"Data: {line}.") for line in _by_system(found)]

    def _rows(self, cells: Callable[[System], Sequence[Text]], width: int) -> List[List[Text]]:
        """A row for each system; one that was not run says so."""
        made = []
        for system in self.systems:
            values = cells(system) if system.runs else [NOT_RUN, *[""] * (width - 1)]
            made.append([_label(system), *values])
        return made

    def _scores(self, test: str) -> List[Block]:
        figures = published.published(self.recipe, test)
        found, signature = self._differences(test)
        best = max((_mean(s, test) for s in self.systems if s.scores(test, "sacrebleu")), default=None)

        def cells(system: System) -> List[Text]:
            row: List[Text] = [_seeds(system, test, self.seeds)]
            for key in SCORES:
                values = list(system.scores(test, key).values())
                text = _with_deviation(values) if values else NOT_RUN
                row.append(Strong(text) if key == "sacrebleu" and values and mean(values) == best else text)
            if figures:
                row.insert(4, str(figures[system.arch].bleu) if system.arch in figures else "")
            return row + _difference(system is self.baseline, found.get(self.systems.index(system)))

        header: List[Text] = ["system", "seeds", *SCORES.values(), "difference", "p"]
        if figures:
            header.insert(5, "papers' moses+split")
        rows = self._rows(cells, len(header) - 1)
        for row, system in zip(rows, self.systems):
            if figures and not system.runs and system.arch in figures:
                row[5] = str(figures[system.arch].bleu)
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
        return [f" ({_count(counts.pop(), 'sentence')})"] if len(counts) == 1 else []

    def _reading(self, found: Dict[int, Difference]) -> Text:
        text: List[Inline] = ["Mean ± standard deviation over seeds (one seed: its score)."]
        if self.baseline and found:
            text += [" Difference: sacreBLEU minus that of the baseline ", *_label(self.baseline)]
            text.append(
                ", over the seeds that both have. p: sacrebleu's paired bootstrap over the sentences, seed by seed"
            )
            text.append(
                f"; * marks p < {LEVEL} with each of them. It knows nothing of how much trainings differ, and of"
            )
            text.append(" many systems that are equally good some fall below by chance.")
        return text

    def _signatures(self, test: str, paired: str) -> List[Block]:
        items: List[Text] = []
        for key, title in SCORES.items():
            found = [(s, e["scores"].get(key, {})) for s in self.systems for e in s.tests(test).values()]
            for signature in _by_system([(system, score.get("signature", "")) for system, score in found]):
                items.append([f"{title}: ", Code(signature)])
        if paired:
            items.append(["p: ", Code(paired)])
        decoding = [(s, e["settings"]) for s in self.systems for e in s.tests(test).values()]
        items += [["decoding: ", setting] for setting in _by_system(decoding)]
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
        columns = [f"{label} ({count:,})" for label, count in header]
        table = Table(["system", *columns], self._rows(cells, len(columns)))
        return [Heading(3, title), Paragraph(reading), table]

    def _costs(self) -> List[Block]:
        def cells(system: System) -> List[Text]:
            def average(key: str) -> float:
                return mean(result["training"][key] or 0.0 for result in system.results)

            total, trained = round(average("parameters")), round(average("parameters_trained"))
            ends = [result["curve"]["valid"]["nll"][-1:] for result in system.results]
            last = [2 ** end[0] for end in ends if end]
            return [
                f"{total:,}" if total == trained else f"{total:,} ({trained:,} trained)",
                f"{average('updates'):,.0f}",
                f"{average('target_tokens'):,.0f}",
                f"{average('target_tokens_per_update'):,.0f}",
                _duration(average("seconds")),
                f"{average('target_tokens_per_second'):,.0f}",
                ", ".join(_distinct(system, lambda result: result["training"]["averaged"])),
                f"{mean(last):.2f}" if last else "",
                "; ".join(_distinct(system, _hardware)),
            ]

        header: List[Text] = ["system", "parameters", "updates", "target tokens", "tokens per update", "wall time"]
        header += ["tokens per second", "checkpoints averaged", "validation perplexity", "hardware"]
        reading = (
            "Means over seeds. Tokens are target tokens, with </s>. Wall time has validation and the writing of "
            "checkpoints in it, and what a kill lost left out. Perplexity is that behind the last update, unaveraged. "
            "Times of runs made at the same time on one machine, or beside other work, do not compare."
        )
        table = Table(header, self._rows(cells, len(header) - 1), left=(len(header) - 1,))
        return [Heading(3, "Costs"), Paragraph(reading), table]

    def _curves(self) -> List[Block]:
        blocks: List[Block] = [Heading(3, "Learning curves")]
        if self.pictures:
            return [*blocks, Paragraph(self.pictures)]
        blocks.append(Paragraph("A line for each seed; the legend is in the order of the last values, highest first."))
        for curve, over, caption in PICTURES:
            svg = curves.draw(self.systems, curve, over)
            blocks.append(Picture(f"{re.sub('[^A-Za-z0-9_.-]', '_', self.recipe)}-{curve}-{over}.svg", svg, caption))
        return blocks

    def _commands(self) -> List[Block]:
        lines: List[str] = []
        versions: Set[str] = set()
        for system in self.systems:
            for seed, result in zip(system.seeds, system.results):
                run = result["run"]
                notes = "".join(f", {key} {value}" for key, value in result["entries"].items())
                commit = run.get("commit") or "not recorded"
                lines += [f"# {plain(_label(system))}, seed {seed}: commit {commit}{notes}", run["command"], ""]
                versions.add(", ".join(f"{name} {number}" for name, number in run["versions"].items()))
        blocks: List[Block] = [Heading(3, "Commands, commits and versions")]
        differing = self._other_settings()
        if differing:
            blocks += [Paragraph("Trained otherwise than the baseline:"), Bullets(differing)]
        blocks.append(Listing("\n".join(lines[:-1])))
        return [*blocks, Bullets([f"Versions: {text}." for text in sorted(versions)])]

    def _other_settings(self) -> List[Text]:
        """Systems whose flags or updates differ from the baseline's, and in what."""
        items: List[Text] = []
        for system in self.systems:
            if not system.runs or self.baseline is None or system is self.baseline:
                continue
            own, other = system.flags, self.baseline.flags
            changed = [f"{flag} {own[flag]}".strip() for flag in own if own[flag] != other.get(flag)]
            changed += [f"without {flag}" for flag in other if flag not in own]
            updates = system.results[0]["training"]["updates"]
            if updates != self.baseline.results[0]["training"]["updates"]:
                changed.append(f"{updates:,} updates")
            if changed:
                items.append([*_label(system), ": ", Code(", ".join(changed))])
        return items


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


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _s(counts: Sequence[int]) -> str:
    return "" if list(counts) == [1] else "s"


def _label(system: System) -> List[Inline]:
    return [Code(system.arch), *([f" ({system.variant})"] if system.variant else [])]


def _by_system(found: Sequence[Tuple[System, str]]) -> List[str]:
    """The distinct texts but empty ones; if there are several, each with the systems that it is about."""
    about: Dict[str, Dict[str, None]] = {}
    for system, text in found:
        if text:
            about.setdefault(text, {})[plain(_label(system))] = None
    return list(about) if len(about) == 1 else [f"{text} ({', '.join(names)})" for text, names in about.items()]


def _mean(system: System, test: str) -> float:
    return mean(system.scores(test, "sacrebleu").values())


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{abs(value):.2f}".replace("-", "\u2212")


def _with_deviation(values: Sequence[float]) -> str:
    middle, deviation = mean_and_deviation(values)
    return f"{middle:.2f}" if deviation is None else f"{middle:.2f} ± {deviation:.2f}"


def _seeds(system: System, test: str, wanted: Sequence[int]) -> str:
    have = sorted(system.scores(test, "sacrebleu"))
    missing = [seed for seed in wanted if seed not in have]
    parts = [", ".join(map(str, have))] if have else []
    return "; ".join([*parts, *([f"{', '.join(map(str, missing))} {NOT_RUN}"] if missing else [])])


def _difference(is_baseline: bool, difference: Optional[Difference]) -> List[Text]:
    if is_baseline:
        return ["baseline", ""]
    if difference is None:
        return ["", ""]
    values = " / ".join(f"{difference.p[seed]:.4f}" for seed in sorted(difference.p))
    return [_signed(difference.bleu), f"{values} *" if difference.significant else values]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def _distinct(system: System, what: Callable[[Result], Any]) -> List[str]:
    return list({str(what(result)): 0 for result in system.results})


def _hardware(result: Result) -> str:
    devices: List[str] = result["training"]["devices"]
    names = [f"{devices.count(name)} x {name}" for name in {name: 0 for name in devices}]
    return ", ".join([*names, str(result["run"]["machine"])])


def _data_line(data: Dict[str, Any]) -> str:
    """What the data are, as far as it is recorded."""
    pairs: Dict[str, Any] = data.get("pairs") or {}
    known: List[Tuple[str, Any]] = [
        ("{:,} training pairs", pairs.get("train")),
        ("{:,} after cleaning", data.get("kept")),
        ("{:,} for validation", pairs.get("valid")),
        ("{:,} BPE merges", data.get("merges")),
        ("a vocabulary of {:,} types", data.get("vocabulary")),
    ]
    parts = [text.format(number) for text, number in known if number is not None]
    return ", ".join(parts)
