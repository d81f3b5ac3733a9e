"""Reads text from archives without unpacking them, and from test sets in NIST's SGML. It needs no fairseq."""

import html
import re
import tarfile
import zlib
from pathlib import Path
from typing import IO, Iterator, List

from .download import ArchiveError
from .text import CorpusError, lines


def read_member(path: Path, member: str) -> Iterator[str]:
    """Lines of one member of a tar archive, or its segments if it is in SGML.

    Raises:
        ArchiveError: the member is missing, the archive is damaged, or the text is not UTF-8.
    """
    try:
        with tarfile.open(path, "r:gz") as tar:
            for info in tar:
                if info.name.removeprefix("./") == member and info.isfile():
                    file = tar.extractfile(info)
                    assert file is not None
                    yield from sgm_segments(file.read(), member) if member.endswith(".sgm") else _lines(file, member)
                    return
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ArchiveError(f"{path}: cannot be read ({error}): remove it and download it again") from None
    raise ArchiveError(f"{path}: has no {member}: is it the archive from the address that this tool names?")


def _lines(file: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        yield _decoded(line.rstrip(b"\n"), f"{name}, line {number}")


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{place}: not UTF-8 ({error.reason})") from None


def sgm_segments(data: bytes, name: str) -> List[str]:
    """The segments of a test set in NIST's SGML, in the order of the file, without entities.

    Raises:
        ArchiveError: the segments of a document are not numbered 1, 2, 3, ..., or there are none.
    """
    text, segments = _decoded(data, name), []
    for document in re.split(r"(?i)<doc\b", text)[1:]:
        numbered = re.findall(r'(?is)<seg\s+id\s*=\s*"?(\d+)"?\s*>(.*?)</seg>', document)
        if [int(number) for number, _ in numbered] != list(range(1, len(numbered) + 1)):
            raise ArchiveError(f"{name}: the segments of a document are not in order")
        segments += [" ".join(html.unescape(segment).split()) for _, segment in numbered]
    if not segments:
        raise ArchiveError(f"{name}: has no segments: is it a test set in SGML?")
    return segments


def read_file(path: Path) -> Iterator[str]:
    """Lines of a text file (also with .gz), or the segments of a test set in SGML (.sgm).

    Raises:
        ArchiveError: the file is missing, not UTF-8 or damaged.
    """
    try:
        yield from sgm_segments(path.read_bytes(), str(path)) if path.suffix == ".sgm" else lines(path)
    except (CorpusError, OSError) as error:
        raise ArchiveError(str(error)) from None
