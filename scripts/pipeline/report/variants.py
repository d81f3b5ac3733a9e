"""The part of the report about variants: each architecture that was also trained with other settings, side by side."""

from typing import Dict, List, Optional, Sequence, Tuple

from .cells import difference_cells, label, labels
from .comparison import LEVEL, Difference, difference
from .document import Block, Code, Heading, Inline, Paragraph, Table, Text
from .runs import changes
from .systems import System, mean


def pairs(systems: Sequence[System]) -> List[Tuple[System, System]]:
    """Each variant, and the same architecture without; in the order of their names."""
    plain = {system.arch: system for system in systems if system.runs and not system.variant}
    compared_pairs = [system for system in systems if system.runs and system.variant and system.arch in plain]
    return [(system, plain[system.arch]) for system in sorted(compared_pairs, key=lambda s: (s.arch, s.variant))]


def choices(systems: Sequence[System], test: str, validation: Optional[str]) -> List[Block]:
    """Variants against their architecture, on the validation set, by which to choose, and on the first test set."""
    compared_pairs = pairs(systems)
    if not compared_pairs:
        return []
    sets = [name for name in (validation, test) if name]
    compared = [{name: difference(variant, plain, name) for name in sets} for variant, plain in compared_pairs]
    header: List[Text] = ["variant", "differs in"]
    for name in sets:
        header += [["without, ", Code(name)], ["with, ", Code(name)], "difference", "p"]
    rows: List[List[Text]] = []
    for (variant, plain), differences in zip(compared_pairs, compared):
        row: List[Text] = [label(variant), Code(changes(variant, plain)) if changes(variant, plain) else ""]
        for name in sets:
            row += [*_scores(variant, plain, differences[name], name), *difference_cells(False, differences[name])]
        rows.append(row)
    text: List[Inline] = ["Each variant beside the same architecture without it: sacreBLEU, means over common seeds."]
    if validation is None:
        text.append(" No validation set was scored; a choice by the test set is none that it can then confirm.")
    else:
        text += [" What to choose is decided by validation (", Code(validation), "); the test set only shows whether "]
        text += [
            "it holds. ",
            *_verdicts([pair[0] for pair in compared_pairs], [each[validation] for each in compared]),
        ]
    return [Heading(3, "Variants"), Paragraph(text), Table(header, rows, left=(1,))]


def _scores(variant: System, plain: System, difference: Optional[Difference], test: str) -> List[Text]:
    """Without and with, over the seeds that both have."""
    if difference is None:
        return ["", ""]
    scores: List[Dict[int, float]] = [system.scores(test, "sacrebleu") for system in (plain, variant)]
    return [f"{mean(values[seed] for seed in difference.by_seed):.2f}" for values in scores]


def _verdicts(variants: Sequence[System], measured: Sequence[Optional[Difference]]) -> List[Inline]:
    """Which variants are better, which worse, and which neither."""
    kinds: Dict[str, List[System]] = {"better": [], "worse": [], "neither": []}
    for variant, each in zip(variants, measured):
        if each is not None:
            better = "better" if each.bleu > 0 else "worse"
            kinds[better if each.significant else "neither"].append(variant)
    text: List[Inline] = [f"By validation (p < {LEVEL})"]
    for i, (kind, members) in enumerate((kind, members) for kind, members in kinds.items() if members):
        text += ["; " if i else " ", f"{kind}{'' if kind == 'neither' else ' than without'}: ", *labels(members)]
    return [*text, "."] if len(text) > 1 else []
