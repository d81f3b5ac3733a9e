"""What a translation makes of whole documents, beside their BLEU: their length, and their segments."""

from typing import List, Optional, Tuple

from .base import Entry, Texts, entry, plain_entry
from .bleu import standard_bleu


def length_ratio(texts: Texts) -> Optional[Entry]:
    """Tokens of the translations by those of the references, as sacreBLEU counts both; 100: as long."""
    if texts.documents is None:
        return None
    result = standard_bleu(texts.lang).corpus_score(list(texts.hypotheses), [list(texts.references)])
    return plain_entry(100 * result.sys_len / max(result.ref_len, 1))


def right_segments(texts: Texts) -> Optional[Entry]:
    """The share of the documents in which each block has as many segments as the reference."""
    if texts.documents is None:
        return None
    right = [all(map(_is_right, document)) for document in texts.documents]
    return plain_entry(100 * sum(right) / len(right))


def segment_bleu(texts: Texts) -> Optional[Entry]:
    """BLEU of the segments in the blocks that have as many as the reference; none without such blocks."""
    blocks = [block for document in texts.documents or [] for block in document if _is_right(block)]
    pairs = [pair for block in blocks for pair in zip(*block)]
    return entry(standard_bleu(texts.lang), *zip(*pairs)) if pairs else None


def _is_right(block: Tuple[List[str], List[str]]) -> bool:
    """Whether the translation of a block has as many segments as the reference."""
    return len(block[0]) == len(block[1])
