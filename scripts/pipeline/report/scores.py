"""The part of the report about the scores of one recipe on one test set, or on the validation set."""

from typing import Dict, List, Optional, Sequence, Tuple

from . import published
from .cells import (
    NOT_FINISHED,
    NOT_RUN,
    by_system,
    count,
    difference_cells,
    label,
    mean_bleu,
    system_rows,
    with_deviation,
)
from .comparison import LEVEL, Difference
from .document import Block, Bullets, Code, Heading, Inline, Paragraph, Strong, Table, Text
from .systems import System, mean

SCORES = {
    "sacrebleu": "sacreBLEU",
    "bleu_moses": "moses",
    "bleu_moses_compound_split": "moses+split",
    "chrf": "chrF2",
    "bleu_moses_lowercase": "moses lc",
    "bleu_fairseq_training_tokens": "fairseq",
}
"""Keys of the scores in a result file, to the columns, which have the names of score.sh's table."""

LOWERCASE = "bleu_moses_lowercase"


def scores(
    recipe: str,
    systems: Sequence[System],
    baseline: Optional[System],
    test: str,
    seeds: Sequence[int],
    compared: Tuple[Dict[int, Difference], str],
    validation: bool = False,
) -> List[Block]:
    """The table of all scores, how to read it, the papers' figures and the signatures.

    Args:
        systems: in the order of the rows.
        seeds: that were asked for.
        compared: the differences to the baseline, by the place of the system, and the signature of their test.
        validation: it is the validation set, of which papers state no figures.
    """
    figures = {} if validation else published.published(recipe, test)
    differences_by_place, signature = compared
    # a score that older versions did not know, and none of the runs has
    keys = [key for key in SCORES if key != LOWERCASE or any(s.scores(test, key) for s in systems)]
    best = max((mean_bleu(s, test) for s in systems if s.scores(test, "sacrebleu")), default=None)

    def cells(system: System) -> List[Text]:
        row: List[Text] = [_seeds(system, test, seeds)]
        for key in keys:
            values = list(system.scores(test, key).values())
            text = with_deviation(values) if values else "" if system.tests(test) else NOT_RUN
            row.append(Strong(text) if key == "sacrebleu" and values and mean(values) == best else text)
        if figures:
            row.insert(4, "")
        return row + difference_cells(system is baseline, differences_by_place.get(systems.index(system)))

    header: List[Text] = ["system", "seeds", *(SCORES[key] for key in keys), "difference", "p"]
    if figures:
        header.insert(5, "papers' moses+split")
    rows = system_rows(systems, cells, len(header) - 1)
    for row, system in zip(rows, systems):
        if figures:  # also where nothing was run
            row[5] = _published(system, figures)
    blocks: List[Block] = [Heading(3, ["Scores on ", Code(test), *_sentences(systems, test, validation)])]
    blocks.append(Paragraph(_reading(baseline, differences_by_place)))
    blocks.append(Table(header, rows, left=(1,)))
    if figures:
        sources: List[Text] = [
            [f"{f.bleu} (", Code(f.arch), f", {published.KIND}): {f.source}"] for f in figures.values()
        ]
        blocks += [Paragraph(published.READING), Bullets(sources)]
    return [*blocks, *_signatures(systems, test, signature)]


def _sentences(systems: Sequence[System], test: str, validation: bool) -> List[str]:
    parts = ["validation"] if validation else []
    counts = {entry["sentences"] for system in systems for entry in system.tests(test).values()}
    parts += [count(counts.pop(), "sentence")] if len(counts) == 1 else []
    return [f" ({', '.join(parts)})"] if parts else []


def _reading(baseline: Optional[System], differences_by_place: Dict[int, Difference]) -> Text:
    text: List[Inline] = ["Mean ± standard deviation over seeds (one seed: its score)."]
    if baseline and differences_by_place:
        text += [" Difference: sacreBLEU minus that of the baseline ", *label(baseline)]
        text.append(", over the seeds that both have. p: sacrebleu's paired bootstrap over the sentences, seed by ")
        text.append(f"seed; * marks p < {LEVEL} with each of them. It knows nothing of how much trainings differ, ")
        text.append("and of many systems that are equally good some fall below by chance.")
    return text


def _signatures(systems: Sequence[System], test: str, paired: str) -> List[Block]:
    items: List[Text] = []
    for key, title in SCORES.items():
        differences_by_place = [(s, e["scores"].get(key, {})) for s in systems for e in s.tests(test).values()]
        for signature in by_system([(system, score.get("signature", "")) for system, score in differences_by_place]):
            items.append([f"{title}: ", Code(signature)])
    if paired:
        items.append(["p: ", Code(paired)])
    decoding = [(s, e["settings"]) for s in systems for e in s.tests(test).values()]
    items += [["decoding: ", setting] for setting in by_system(decoding)]
    return [Paragraph("Signatures:"), Bullets(items)] if items else []


def _published(system: System, figures: Dict[str, published.Published]) -> str:
    return str(figures[system.arch].bleu) if system.arch in figures and not system.variant else ""


def _seeds(system: System, test: str, wanted: Sequence[int]) -> str:
    have = sorted(system.scores(test, "sacrebleu"))
    stopped = [seed for seed in system.unfinished if seed not in have]
    missing = [seed for seed in wanted if seed not in [*have, *stopped]]
    parts = [", ".join(map(str, have))] if have else []
    parts += [f"{', '.join(map(str, stopped))} {NOT_FINISHED}"] if stopped else []
    parts += [f"{', '.join(map(str, missing))} {NOT_RUN}"] if missing else []
    return "; ".join(parts) or NOT_RUN
