"""Pairs of documents: reads their segments, and cuts them into blocks of consecutive segments. It needs no fairseq.

A block is one pair of a set; :data:`SEPARATOR` stands between its segments on both sides. The sets of a folder of
prepared data say in ``raw/SET.json`` how many segments each document has, and how many each block.
"""

from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..command import Failure, say
from ..files import raw_lines, read_json, write_json
from ..text.base import one_line
from ..text.segments import SENTENCES, SEPARATOR, join_segments, packed
from .lines import Pair, pairs, write_pairs

TEST_TOKENS = (128, 256, 512, 1024, 2048)
"""Source tokens of a block at most, in the sets that are made of each test set."""

BLOCKS = "train.blocks"
"""The file of the training pairs of growing length."""


def table_of(prefix: str) -> Optional[Path]:
    """The table ``PREFIX.tsv``, plain or gzipped, if there is one."""
    return next((path for end in (".tsv", ".tsv.gz") if (path := Path(f"{prefix}{end}")).is_file()), None)


def documents(prefix: str, langs: Tuple[str, str]) -> Iterator[List[Pair]]:
    """The documents of a corpus, each a list of segments in two languages.

    In ``PREFIX.tsv`` a line is a segment: the name of its document, source and target, with tabs between them. In
    parallel text, a line that is empty on both sides ends a document.
    """
    named = _rows(table) if (table := table_of(prefix)) else _paragraphs(pairs(prefix, langs), prefix)
    ended = set()
    for name, rows in groupby(named, key=lambda row: row[0]):
        if name in ended:
            raise Failure(f"{prefix}: document {name} begins a second time: put its lines together, in their order")
        ended.add(name)
        segments = [(source, target) for _, source, target in rows]
        if any(SEPARATOR in source or SEPARATOR in target for source, target in segments):
            raise Failure(f"{prefix}, document {name}: has {SEPARATOR}, which separates segments here: replace it")
        yield segments


def names(tests: Sequence[str]) -> Dict[str, Tuple[str, int]]:
    """fairseq's names of the sets of blocks: to the set that each is made of, a test set or at last the validation set,
    and the tokens of a block.

    Those of the validation set are called tests as well: fairseq-train refuses data with a ``valid1`` that it is not
    told to validate on.
    """
    kinds = [(name, tokens) for name in (*tests, "valid") for tokens in TEST_TOKENS]
    return {f"test{number}": kind for number, kind in enumerate(kinds, len(tests))}


def titles(tests: Mapping[str, str], valid: str = "") -> Dict[str, str]:
    """fairseq's name of each set of blocks, to a real one, given those of the test sets, and of the validation set if
    its blocks count."""
    known = {**tests, "valid": valid}
    return {name: f"{known[whole]}-{tokens}" for name, (whole, tokens) in names(list(tests)).items() if known[whole]}


def _rows(path: Path) -> Iterator[Tuple[str, str, str]]:
    for number, line in enumerate(raw_lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 3:
            raise Failure(
                f"{path}, line {number}: {len(cells)} columns with tabs between them, and should have 3: document, "
                "source, target"
            )
        if number == 1 and [one_line(cell).lower() for cell in cells[1:]] == ["source", "target"]:
            raise Failure(f"{path}, line 1: has the names of the columns: remove this line")
        yield cells[0], one_line(cells[1]), one_line(cells[2])


def _paragraphs(segments: Iterable[Pair], prefix: str) -> Iterator[Tuple[str, str, str]]:
    document = 1
    for number, (source, target) in enumerate(segments, 1):
        if bool(source) != bool(target):
            raise Failure(
                f"{prefix}, line {number}: empty on one side: documents end at the same empty line on both sides"
            )
        if source:
            yield str(document), source, target
        else:
            document += 1


def copy_documents(prefix: str, out: Path, langs: Tuple[str, str]) -> Dict[str, Any]:
    """Writes the segments of a corpus as ``OUT.LANG``; returns their number, and the segments of each document."""
    sizes: List[int] = []

    def segments() -> Iterator[Pair]:
        for document in documents(prefix, langs):
            sizes.append(len(document))
            yield from document

    count = write_pairs(str(out), langs, segments())
    if len(sizes) == 1 < count:
        how = "separate documents by empty lines on both sides (in a .tsv, by their names)"
        say(f"{prefix}: all {count} segments are one document: if not, {how}")
    return {"pairs": count, "documents": sizes}


def growing(segments: Sequence[Pair], most: int) -> Iterator[Sequence[Pair]]:
    """Blocks of 1, 2, 4, ... consecutive segments of one document (multi-resolution, Sun et al., 2022).

    Each segment is in one block of each number, unless that block would have more than ``most`` tokens on a side. The
    rest at the end of a document is a block if no shorter number gives the same one. Segments alone always stay.
    """

    def longest(block: Sequence[Pair]) -> int:
        return max(len(side.split()) for side in joined(block))

    yield from ([segment] for segment in segments)
    number = 2
    while number < 2 * len(segments):
        blocks = [segments[start : start + number] for start in range(0, len(segments), number)]
        fitting = [block for block in blocks if 2 * len(block) > number and longest(block) <= most]
        if not fitting:
            return
        yield from fitting
        number *= 2


def joined(block: Sequence[Pair]) -> Pair:
    """A block as one pair."""
    source, target = (join_segments([segment[side] for segment in block]) for side in range(2))
    return source, target


def write_training_blocks(tokens: Path, langs: Tuple[str, str], most: int) -> Dict[str, int]:
    """Makes two training sets of ``TOKENS/train.clean``, in which empty lines end documents: segments alone, and blocks
    of growing length up to ``most`` tokens. Returns their numbers of pairs."""

    def runs() -> Iterator[List[Pair]]:
        segments = pairs(str(tokens / "train.clean"), langs)
        return (list(run) for filled, run in groupby(segments, key=any) if filled)

    alone = (segment for run in runs() for segment in run)
    blocks = (joined(block) for run in runs() for block in growing(run, most))
    counts = {
        SENTENCES: write_pairs(str(tokens / SENTENCES), langs, alone),
        "blocks": write_pairs(str(tokens / BLOCKS), langs, blocks),
    }
    if counts[SENTENCES] == counts["blocks"]:
        raise Failure(
            f"no document has two neighbouring segments that fit into {most} tokens: check how documents are separated,"
            " or give more --document-tokens, or none"
        )
    return counts


def write_test_blocks(folder: Path, tokens: str, langs: Tuple[str, str], names: Mapping[str, Tuple[str, int]]) -> None:
    """Makes sets of blocks, as raw text and as tokens.

    Args:
        folder: the prepared data.
        tokens: the folder of the tokens in it.
        names: the name of each set to make, to that of the set with its segments and the source tokens of a block.
    """
    for name, (segments, most) in names.items():
        sizes = read_json(folder / f"raw/{segments}.json")["documents"]
        split = pairs(str(folder / tokens / segments), langs)
        documents = (packed(list(islice(split, size)), most, lambda pair: len(pair[0].split())) for size in sizes)
        blocks = list(chain.from_iterable(documents))
        if longer := sum(len(block) == 1 and len(block[0][0].split()) > most for block in blocks):
            say(f"{segments} in blocks of at most {most} tokens: {longer} segments are longer, and blocks of their own")
        raw, counts = pairs(str(folder / "raw" / segments), langs), list(map(len, blocks))
        write_pairs(str(folder / tokens / name), langs, map(joined, blocks))
        write_pairs(str(folder / "raw" / name), langs, (joined(list(islice(raw, count))) for count in counts))
        write_json(folder / f"raw/{name}.json", {"pairs": len(counts), "documents": sizes, "blocks": counts})
