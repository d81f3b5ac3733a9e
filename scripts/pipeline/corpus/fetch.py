"""Downloads the parts of WMT14 English-German from their public addresses and extracts their text.

The text is train (Europarl v7, Common Crawl and News Commentary, 4.5 million pairs), newstest2013 and newstest2014 (all
3,003 lines), as .en and .de. After an interruption, call it again: it continues. The archives are published without
hashes. The first download writes SHA256SUMS, and later calls check the archives against it.

Example: scripts/download.sh --out /data/wmt14
"""

import hashlib
from pathlib import Path
from typing import Dict, Optional, Sequence, Tuple

from ..command import Failure, Parser, not_empty, run, say, to_path
from ..files import sha256
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..steps import Steps
from .download import SUMS, download, read_sums
from .wmt14 import LANGS, NAMES, NEWS_COMMENTARY, Own, archives, extract, source_of


def _own_files(text: Sequence[str], option: str, parser: Parser) -> Tuple[Path, Path]:
    """The user's own two files of a test set, given as two words or as one text with a space."""
    words = text[0].split() if len(text) == 1 else text
    if len(words) != len(LANGS):
        parser.error(f"{option} needs two files, \"EN DE\", not '{' '.join(text)}'")
    for word in words:
        if not Path(word).is_file():
            raise Failure(f"{word} not found: give the two files of {option}")
    return Path(words[0]), Path(words[1])


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument(
        "--out", type=to_path, required=True, help="output folder: the text, and archives/ with their SHA256SUMS"
    )
    parser.add_argument(
        "--mirror",
        type=not_empty,
        metavar="URL_OR_FOLDER",
        help="take the archives from here, under the same names",
    )
    parser.add_argument(
        "--news-commentary",
        type=int,
        choices=sorted(NEWS_COMMENTARY),
        default=9,
        help="version: 9, as in WMT14 (default), or 12, as in newer scripts",
    )
    for subset in ("valid", "test"):
        parser.add_argument(
            f"--{subset}",
            nargs="+",
            metavar="FILE",
            help=f"your own two files of {NAMES[subset]}, English and German: plain text (also .gz) or .sgm",
        )
    args = parser.parse_args(argv)
    own: Own = {
        subset: _own_files(getattr(args, subset), f"--{subset}", parser)
        for subset in ("valid", "test")
        if getattr(args, subset)
    }
    with locked(args.out, AS_LONG_AS_IT_TAKES):
        fetch(args.out, args.mirror, args.news_commentary, own)
    say(f"WMT14 English-German: {args.out}")


def fetch(out: Path, mirror: Optional[str], news_commentary: int, own: Own) -> None:
    """Downloads what is missing, checks all of it, and makes the text if it is not there yet.

    Raises:
        Failure: an archive cannot be downloaded or used.
    """
    folder = out / "archives"
    for archive in archives(news_commentary, own):
        path = download(source_of(archive, mirror), folder)
        say(f"{path}: {read_sums(folder)[archive.name]}")
    hashes = "".join(sha256(file) for subset in sorted(own) for file in own[subset])
    steps = Steps(out)
    sums = hashlib.sha256((folder / SUMS).read_bytes() if (folder / SUMS).exists() else b"").hexdigest()
    steps.setting(f"archives {sums} news commentary {news_commentary} own {' '.join(sorted(own))} {hashes}")

    def make_text() -> Dict[str, int]:
        expected = {archive.name: archive.lines for archive in archives(news_commentary)}
        counts = extract(folder, out, news_commentary, own)
        for name, count in counts.items():
            usual = expected.get(name, count)
            say(f"{name}: {count:,} lines" + ("" if count == usual else f" ({usual:,} were expected)"))
        return counts

    steps.step("extract", [f"{name}.{lang}" for name in NAMES.values() for lang in LANGS], make_text)


if __name__ == "__main__":
    run(main)
