"""Figures that papers state, by recipe and architecture, to stand beside one's own."""

from dataclasses import dataclass
from typing import Dict, List

TEST_SET = "newstest2014"
"""WMT14's test set, English to German, which all of them are about."""

KIND = "cased BLEU, tokenised, compounds split"

READING = (
    f"The papers' figures stand beside the column of their kind, moses+split ({KIND}), and compare with no other. "
    "The papers of Shaw et al. and on RoFormer say only BLEU, which is taken for this kind."
)


@dataclass(frozen=True)
class Published:
    """A figure and who states it."""

    arch: str
    bleu: float
    source: str


PUBLISHED: Dict[str, List[Published]] = {
    "wmt14_en_de": [
        Published("transformer_sinusoidal_base", 27.3, "Vaswani et al. 2017; RoFormer, arXiv 2104.09864, table 1"),
        Published("roformer_base", 27.5, "RoFormer, table 1"),
    ],
    "wmt14_en_de_shaw": [
        Published("transformer_sinusoidal_base", 26.5, "Shaw et al. 2018"),
        Published("transformer_shaw_base", 26.8, "Shaw et al. 2018"),
    ],
}


def published(recipe: str, test: str) -> Dict[str, Published]:
    """The figures for one test set of a recipe, by architecture."""
    return {figure.arch: figure for figure in PUBLISHED.get(recipe, [])} if TEST_SET in test else {}
