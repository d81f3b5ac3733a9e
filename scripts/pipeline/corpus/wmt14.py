"""WMT14 English-German: its public archives, and the text in them. It needs no fairseq."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Callable, Dict, Iterator, List, Optional, Tuple

from ..command import Failure
from ..files import replacing
from ..progress import Progress
from .archive import read_file, read_member

LANGS = ("en", "de")
NAMES = {"train": "train", "valid": "newstest2013", "test": "newstest2014"}
"""Subset, to the name of its files."""


@dataclass(frozen=True)
class Archive:
    """An archive with a part of the data."""

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
"""Subset, to the user's own files of the two languages."""


def archives(news_commentary: int = 9, own: Optional[Own] = None) -> List[Archive]:
    """The archives that are needed, in the order of their text in the corpus."""
    every = [EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY[news_commentary], NEWSTEST2013, NEWSTEST2014]
    return [archive for archive in every if archive.subset not in (own or {})]


def source_of(archive: Archive, mirror: Optional[str]) -> str:
    """The address of an archive: its own, or the same name at a mirror (an address, or a folder)."""
    if mirror is None:
        return archive.url
    if "://" not in mirror:
        mirror = Path(mirror).resolve().as_uri()
    return f"{mirror.rstrip('/')}/{archive.name}"


def extract(folder: Path, out: Path, news_commentary: int = 9, own: Optional[Own] = None) -> Dict[str, int]:
    """Writes ``OUT/NAME.{en,de}`` for each of :data:`NAMES`; returns the lines of each archive or own file.

    Raises:
        Failure: an archive is missing, damaged or empty, the two sides differ in length or segments, or the test
            set is filtered.
    """
    out.mkdir(parents=True, exist_ok=True)
    counts: Dict[str, int] = {}
    # name of a part, and its lines in each language
    parts: Dict[str, List[Tuple[str, List[Reader]]]] = {}
    for archive in archives(news_commentary, own):
        path = folder / archive.name
        if not path.exists():
            raise Failure(f"{path} not found: download it first")
        source, _ = archive.members
        sides: List[Reader] = [partial(read_member, path, member, source) for member in archive.members]
        parts.setdefault(archive.subset, []).append((archive.name, sides))
    for subset, files in (own or {}).items():
        parts[subset] = [(str(files[0]), [partial(read_file, file, files[0]) for file in files])]
    for subset, sources in parts.items():
        with ExitStack() as stack:
            for side, lang in enumerate(LANGS):
                output = stack.enter_context(replacing(out / f"{NAMES[subset]}.{lang}"))
                for name, readers in sources:
                    count = _copy(readers[side](), output, f"{name}, {lang}")
                    if counts.setdefault(name, count) != count:
                        raise Failure(
                            f"{name}: {LANGS[0]} has {counts[name]} lines, but {LANGS[1]} {count}: the two sides "
                            "must be aligned"
                        )
                    if subset == "test":
                        check_test_set(name, count)
    return counts


def _copy(lines: Iterator[str], output: IO[bytes], label: str) -> int:
    """Writes lines to a file; returns how many.

    Raises:
        Failure: there are none.
    """
    count, progress = 0, Progress(label, None, "lines")
    for line in lines:
        output.write(f"{line}\n".encode())
        count += 1
        if count % 10000 == 0:
            progress.to(count)
    progress.to(count)
    progress.close()
    if not count:
        raise Failure(f"{label}: is empty: is it the right file?")
    return count


def check_test_set(name: str, count: int) -> None:
    """Raises Failure if a test set with this number of lines is the filtered newstest2014."""
    if count == FILTERED_NEWSTEST2014:
        raise Failure(
            f"{name}: {count} lines are the filtered newstest2014, whose scores do not compare with those of the "
            "papers: take the full one, 3,003 lines, from test-full.tgz"
        )
