"""WMT14 English-German from its public archives: downloaded, checked, and read without unpacking. It needs no fairseq.

::

    wmt14.py download FOLDER [--mirror URL_OR_FOLDER]     the archives, with SHA256SUMS beside them
    wmt14.py extract FOLDER OUT                           OUT/{train,newstest2013,newstest2014}.{en,de}
    wmt14.py check FILE                                   whether it can be the papers' test set

With ``--valid EN DE`` or ``--test EN DE`` these two files, plain lines or SGML, stand for those of an archive.
"""

import argparse
import html
import os
import re
import sys
import tarfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Callable, Dict, Iterator, List, Optional, Tuple

from ..progress import Progress
from .download import ArchiveError, download, read_sums
from .text import CorpusError, lines

LANGS = ("en", "de")
NAMES = {"train": "train", "valid": "newstest2013", "test": "newstest2014"}
"""Subset to the name of its files."""


@dataclass(frozen=True)
class Archive:
    """Where a part of the data comes from."""

    url: str
    subset: str  # train, valid or test
    members: Tuple[str, str]  # of the two languages; plain lines, or a test set in SGML
    lines: int  # as far as known: reported against, not required

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


def _plain(url: str, subset: str, member: str, lines: int) -> Archive:
    return Archive(url, subset, (f"{member}.en", f"{member}.de"), lines)


WMT17 = "http://data.statmt.org/wmt17/translation-task"
EUROPARL = _plain(
    "http://statmt.org/wmt13/training-parallel-europarl-v7.tgz", "train", "training/europarl-v7.de-en", 1920209
)
COMMON_CRAWL = _plain(
    "http://statmt.org/wmt13/training-parallel-commoncrawl.tgz", "train", "commoncrawl.de-en", 2399123
)
NEWS_COMMENTARY = {
    9: _plain(
        "http://statmt.org/wmt14/training-parallel-nc-v9.tgz", "train", "training/news-commentary-v9.de-en", 201288
    ),
    12: _plain(f"{WMT17}/training-parallel-nc-v12.tgz", "train", "training/news-commentary-v12.de-en", 270769),
}
NEWSTEST2013 = _plain(f"{WMT17}/dev.tgz", "valid", "dev/newstest2013", 3000)
NEWSTEST2014 = Archive(
    "http://statmt.org/wmt14/test-full.tgz",
    "test",
    ("test-full/newstest2014-deen-src.en.sgm", "test-full/newstest2014-deen-ref.de.sgm"),
    3003,
)
FILTERED_NEWSTEST2014 = 2737


Reader = Callable[[], Iterator[str]]
Own = Dict[str, Tuple[Path, Path]]
"""Subset to the user's own files of the two languages."""


def archives(news_commentary: int = 9, own: Optional[Own] = None) -> List[Archive]:
    """Those that are needed, in the order in which they make up the corpus."""
    every = [EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY[news_commentary], NEWSTEST2013, NEWSTEST2014]
    return [archive for archive in every if archive.subset not in (own or {})]


def source_of(archive: Archive, mirror: Optional[str]) -> str:
    """The address of an archive: its own, or of the same name at a mirror (an address, or a folder)."""
    if mirror is None:
        return archive.url
    if "://" not in mirror:
        mirror = Path(mirror).resolve().as_uri()
    return f"{mirror.rstrip('/')}/{archive.name}"


def read_member(path: Path, member: str) -> Iterator[str]:
    """Lines of one member of a tar archive, which is not unpacked; segments, if it is in SGML.

    Raises:
        ArchiveError: there is no such member, a damaged archive, or text that is not UTF-8.
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
    """The segments of a test set in the SGML of NIST, in the order of the file, without entities.

    Raises:
        ArchiveError: the segments of a document are not numbered 1, 2, 3, ..., or there are none.
    """
    text, segments = _decoded(data, name), []
    for document in re.split(r"(?i)<doc\b", text)[1:]:
        found = re.findall(r'(?is)<seg\s+id\s*=\s*"?(\d+)"?\s*>(.*?)</seg>', document)
        if [int(number) for number, _ in found] != list(range(1, len(found) + 1)):
            raise ArchiveError(f"{name}: the segments of a document are not in order")
        segments += [" ".join(html.unescape(segment).split()) for _, segment in found]
    if not segments:
        raise ArchiveError(f"{name}: has no segments: is it a test set in SGML?")
    return segments


def read_file(path: Path) -> Iterator[str]:
    """Lines of a text file (also with .gz), or the segments of a test set in SGML (.sgm).

    Raises:
        ArchiveError: it is not there, not UTF-8 or damaged.
    """
    try:
        yield from sgm_segments(path.read_bytes(), str(path)) if path.suffix == ".sgm" else lines(path)
    except (CorpusError, OSError) as error:
        raise ArchiveError(str(error)) from None


def extract(folder: Path, out: Path, news_commentary: int = 9, own: Optional[Own] = None) -> Dict[str, int]:
    """Writes ``OUT/NAME.{en,de}`` for each of :data:`NAMES`; returns the lines of each archive or own file.

    Raises:
        ArchiveError: an archive is missing or damaged, the two sides differ, or the test set is the filtered one.
    """
    out.mkdir(parents=True, exist_ok=True)
    counts: Dict[str, int] = {}
    # name of a part, and its lines in each language
    parts: Dict[str, List[Tuple[str, List[Reader]]]] = {}
    for archive in archives(news_commentary, own):
        path = folder / archive.name
        if not path.exists():
            raise ArchiveError(f"{path} not found: download it first")
        sides: List[Reader] = [partial(read_member, path, member) for member in archive.members]
        parts.setdefault(archive.subset, []).append((archive.name, sides))
    for subset, files in (own or {}).items():
        parts[subset] = [(files[0].name, [partial(read_file, file) for file in files])]
    for subset, sources in parts.items():
        temporary = [out / f"{NAMES[subset]}.{lang}.tmp" for lang in LANGS]
        try:
            for side, file in enumerate(temporary):
                with file.open("w", encoding="utf-8", newline="\n") as output:
                    for name, sides in sources:
                        count, progress = 0, Progress(f"{name}, {LANGS[side]}", None, "lines")
                        for line in sides[side]():
                            output.write(line + "\n")
                            count += 1
                            if count % 10000 == 0:
                                progress.to(count)
                        progress.close()
                        if counts.setdefault(name, count) != count:
                            raise ArchiveError(
                                f"{name}: {LANGS[0]} has {counts[name]} lines, but {LANGS[1]} {count}: the two sides "
                                "must be aligned"
                            )
                        if subset == "test":
                            check_test_set(name, count)
            for file in temporary:
                os.replace(file, file.with_suffix(""))
        finally:
            for file in temporary:
                file.unlink(missing_ok=True)
    return counts


def check_test_set(name: str, count: int) -> None:
    """Raises ArchiveError if a test set of so many lines is the filtered newstest2014."""
    if count == FILTERED_NEWSTEST2014:
        raise ArchiveError(
            f"{name}: {count} lines are the filtered newstest2014, whose scores do not compare with those of the "
            "papers: take the full one, 3,003 lines, from test-full.tgz"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("download", help="the archives")
    command.add_argument("folder", type=Path, help="gets the archives and their hashes")
    command.add_argument("--mirror", help="address or folder that has them under the same names")
    command = commands.add_parser("extract", help="training, validation and test set as plain text")
    command.add_argument("folder", type=Path, help="has the archives")
    command.add_argument("out", type=Path, help="gets them")
    for command in commands.choices.values():
        command.add_argument("--news-commentary", type=int, choices=sorted(NEWS_COMMENTARY), default=9)
        for subset in ("valid", "test"):
            command.add_argument(f"--{subset}", type=Path, nargs=2, metavar=("EN", "DE"), help="your own files")
    command = commands.add_parser("check", help="refuse the filtered newstest2014")
    command.add_argument("file", type=Path, help="one side of a test set")
    args = parser.parse_args()
    try:
        if args.command == "check":
            check_test_set(str(args.file), sum(1 for _ in read_file(args.file)))
            return
        own = {subset: tuple(files) for subset in ("valid", "test") if (files := getattr(args, subset))}
        if args.command == "download":
            for archive in archives(args.news_commentary, own):
                path = download(source_of(archive, args.mirror), args.folder)
                print(f"{path}: {read_sums(args.folder)[archive.name]}")
        else:
            known = {archive.name: archive.lines for archive in archives(args.news_commentary)}
            for name, count in extract(args.folder, args.out, args.news_commentary, own).items():
                expected = known.get(name, count)
                print(f"{name}: {count:,} lines" + ("" if count == expected else f" ({expected:,} were expected)"))
    except (ArchiveError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
