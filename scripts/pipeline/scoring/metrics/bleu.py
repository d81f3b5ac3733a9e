"""Every BLEU that papers quote. sacremoses tokenises, and sacreBLEU computes."""

import re
from typing import List, Optional, Sequence

from sacrebleu.metrics import BLEU
from sacremoses import MosesTokenizer

from ...command import Failure
from ...languages import base, has_spaces, tokenizer
from .base import Entry, Texts, entry


def standard_bleu(lang: str) -> BLEU:
    """sacreBLEU's BLEU with the tokens that are usual for a language: 13a, for Chinese ``zh``, and so on.

    No other tokeniser takes the place of one that is missing: a command gives the same figure on every machine.
    """
    name = tokenizer(lang)
    try:
        return BLEU(tokenize=name)
    except (ImportError, RuntimeError):
        extra = name.split("-")[0]
        raise Failure(
            f"BLEU of {lang} needs sacreBLEU's tokeniser {name}: "
            f"pip install 'sacrebleu[{extra}]', or EXTRAS={extra} scripts/install.sh"
        ) from None


def moses_bleu(texts: Texts, splits: bool = False, lowercase: bool = False) -> Optional[Entry]:
    """BLEU of Moses tokens of both sides, of sentences, in a language whose words are separated by spaces.

    Args:
        splits: whether to split compounds as well.
        lowercase: whether to ignore case.
    """
    if not has_spaces(texts.lang) or texts.documents is not None:
        return None
    sides = [moses_tokenize(side, texts.lang) for side in (texts.hypotheses, texts.references)]
    if splits:
        sides = [split_compounds(side) for side in sides]
    return entry(BLEU(tokenize="none", force=True, lowercase=lowercase), *sides)


def moses_tokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Turns text into plain Moses tokens: hyphens stay inside words."""
    tokenizer = MosesTokenizer(base(lang))
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


def split_compounds(lines: Sequence[str]) -> List[str]:
    """``a-b`` -> ``a ##AT##-##AT## b``, as in the scripts behind the Transformer's published figures."""
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines]
