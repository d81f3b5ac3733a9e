"""Documents as blocks of consecutive segments, one line each."""

from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Sequence, TypeVar

from ..command import Failure
from ..prepared import Prepared
from ..provenance import read_record
from ..settings import flags_in

SEPARATOR = "<sep>"
"""The token between the segments of a block."""

SENTENCES = "sentences"
"""fairseq's name of the training set with the segments alone."""

Segment = TypeVar("Segment")


def block_tokens(run: Path, prepared: Prepared) -> int:
    """The subwords of the largest block of a document that a run was trained on; 0 if it was segments alone."""
    flags = flags_in(read_record(run).flags.split())
    return 0 if flags.get("--train-subset") == [SENTENCES] else prepared.document_tokens


def join_segments(segments: Iterable[str]) -> str:
    """Consecutive segments of a document, as text or as tokens, as one line."""
    return f" {SEPARATOR} ".join(segments)


def split_segments(block: str) -> List[str]:
    """The segments of :func:`join_segments`."""
    return [segment.strip() for segment in block.split(SEPARATOR)]


def packed(segments: Sequence[Segment], most: int, tokens_of: Callable[[Segment], int]) -> Iterator[Sequence[Segment]]:
    """A whole document in blocks of at most ``most`` tokens, as few as fit; a longer segment is one alone."""
    start, tokens = 0, 0
    for end, segment in enumerate(segments):
        more = tokens_of(segment) + (1 if end > start else 0)
        if end > start and tokens + more > most:
            yield segments[start:end]
            start, more, tokens = end, tokens_of(segment), 0
        tokens += more
    if segments:
        yield segments[start:]


def of_documents(blocks: Sequence[Any], counts: Mapping[str, Any]) -> List[List[Any]]:
    """What belongs to each block, grouped by document.

    Args:
        blocks: something for each block.
        counts: the content of ``raw/SET.json``.
    """
    numbers = counts.get("blocks", [1] * len(blocks))
    if len(numbers) != len(blocks) or sum(numbers) != sum(counts["documents"]):
        raise Failure(f"there are {len(blocks)} blocks in place of {len(numbers)}: run scripts/prepare.sh again")
    left = zip(numbers, blocks)
    grouped: List[List[Any]] = []
    for size in counts["documents"]:
        document: List[Any] = []
        while size > 0:
            number, block = next(left)
            size -= number
            document.append(block)
        grouped.append(document)
    return grouped
