"""Reads text from archives without unpacking them, and from test sets in NIST's SGML. It needs no fairseq."""

import html
import re
import tarfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Dict, Iterator, List, Optional, Tuple

from ..command import Failure
from .text import CorpusError, lines, raw_lines

LARGEST_TEXT = 8 << 30
"""Most bytes of a text in an archive; the largest text of WMT14 has a tenth of them."""

LARGEST_TEST_SET = 64 << 20
"""Most bytes of a test set in SGML, which is read as a whole; newstest2014 has a hundredth of them."""

Segments = Dict[Tuple[str, int], str]
"""The segments of a test set by document and number, in the order of the file."""


def read_member(path: Path, member: str, like: str = "") -> Iterator[str]:
    """Lines of one member of a tar archive, or its segments if it is in SGML.

    Args:
        like: member of the other side; if both are in SGML, the segments come in its order.

    Raises:
        Failure: the member is missing or too large, the archive is damaged, the text is not UTF-8, or the two
            sides have other segments.
    """
    if member.endswith(".sgm"):
        order = _member_segments(path, like) if like.endswith(".sgm") else None
        yield from _ordered(_member_segments(path, member), order, member)
        return
    with _opened(path, member, LARGEST_TEXT) as file:
        yield from raw_lines(file.readline, member)


def read_file(path: Path, like: Optional[Path] = None) -> Iterator[str]:
    """Lines of a text file (also with .gz), or the segments of a test set in SGML (.sgm).

    Args:
        like: file of the other side; if both are in SGML, the segments come in its order.

    Raises:
        Failure: the file is missing, not UTF-8, damaged or too large, or the two sides have other segments.
    """
    try:
        if path.suffix == ".sgm":
            order = _file_segments(like) if like and like.suffix == ".sgm" else None
            yield from _ordered(_file_segments(path), order, str(path))
        else:
            yield from lines(path)
    except OSError as error:
        raise Failure(str(error)) from None


def sgm_segments(data: bytes, name: str) -> Segments:
    """The segments of a test set in NIST's SGML, without entities.

    Raises:
        Failure: a document comes twice, its segments are not numbered 1, 2, 3, ..., or there are none.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{name}: not UTF-8 ({error.reason})") from None
    segments: Segments = {}
    for document in re.split(r"(?i)<doc\b", text)[1:]:
        title = re.match(r'(?is)[^>]*\bdocid\s*=\s*(?:"([^"]*)"|([^\s">]+))', document)
        identity = (title[1] or title[2]) if title else ""
        numbered = re.findall(r'(?is)<seg\s+id\s*=\s*"?(\d+)"?\s*>(.*?)</seg>', document)
        if [int(number) for number, _ in numbered] != list(range(1, len(numbered) + 1)):
            raise Failure(f"{name}: the segments of document '{identity}' are not in order")
        if (identity, 1) in segments:
            raise Failure(f"{name}: document '{identity}' comes twice")
        segments.update(
            {(identity, int(number)): " ".join(html.unescape(segment).split()) for number, segment in numbered}
        )
    if not segments:
        raise Failure(f"{name}: has no segments: is it a test set in SGML?")
    return segments


def _ordered(segments: Segments, order: Optional[Segments], name: str) -> List[str]:
    if order is None:
        return list(segments.values())
    alone = sorted(segments.keys() ^ order.keys())
    if alone:
        document, number = alone[0]
        raise Failure(
            f"{name}: segment {number} of document '{document}' is on one side alone: the two sides must be aligned"
        )
    return [segments[key] for key in order]


def _member_segments(path: Path, member: str) -> Segments:
    with _opened(path, member, LARGEST_TEST_SET) as file:
        return sgm_segments(file.read(), member)


def _file_segments(path: Path) -> Segments:
    _check_size(path.stat().st_size, LARGEST_TEST_SET, str(path))
    return sgm_segments(path.read_bytes(), str(path))


@contextmanager
def _opened(path: Path, member: str, largest: int) -> Iterator[IO[bytes]]:
    """A member of at most ``largest`` bytes."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            for info in tar:
                if info.name.removeprefix("./") == member and info.isfile():
                    _check_size(info.size, largest, f"{path}: {member}")
                    file = tar.extractfile(info)
                    assert file is not None
                    yield file
                    return
    except CorpusError as error:
        raise Failure(f"{path}: {error}") from None
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise Failure(f"{path}: cannot be read ({error}): remove it and download it again") from None
    raise Failure(f"{path}: has no {member}: is it the archive from the address that this tool names?")


def _check_size(size: int, largest: int, name: str) -> None:
    if size > largest:
        raise Failure(f"{name} has {size:,} bytes, and {largest:,} are the most: is it the right file?")
