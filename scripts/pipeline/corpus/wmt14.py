"""Downloads WMT14 English-German and writes its text as train, newstest2013 and newstest2014, each .en and .de.

The training text is Europarl v7, Common Crawl and News Commentary in this order (4.5 million pairs), from the public
archives; sacreBLEU downloads the two test sets and checks their MD5. After an interruption, call it again: it
continues. Archives that you have already in OUT/archives are taken as they are.

Example: scripts/download.sh --out /data/wmt14
"""

import html
import subprocess
import tarfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Sequence

from sacrebleu.utils import get_reference_files, get_source_file

from ..command import FULL, Failure, Parser, say, to_path
from ..files import replacing, write_text
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..steps import Steps

LANGS = ("en", "de")
MEMBERS = {
    "http://statmt.org/wmt13/training-parallel-europarl-v7.tgz": "training/europarl-v7.de-en",
    "http://statmt.org/wmt13/training-parallel-commoncrawl.tgz": "commoncrawl.de-en",
    "http://statmt.org/wmt14/training-parallel-nc-v9.tgz": "training/news-commentary-v9.de-en",
    "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz": "training/news-commentary-v12.de-en",
}
"""Archive, to its member without the language."""

TESTS = {"newstest2013": "wmt13", "newstest2014": "wmt14/full"}
"""Test set, to sacreBLEU's name of it."""


def fetch(url: str, folder: Path) -> Path:
    """Downloads an archive, if it is not there yet, or continues it; raises Failure if that fails."""
    path = folder / url.rsplit("/", 1)[1]
    part = path.with_name(f"{path.name}.part")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["curl", "--fail", "--location", "--continue-at", "-", "--progress-bar", "--output", str(part), url]
        if code := subprocess.run(command).returncode:
            raise Failure(f"{url}: curl ended with {code}: call again to go on, or put it into {folder}")
        part.rename(path)
    return path


def extract(archives: Dict[str, Path], out: Path) -> None:
    """Writes ``OUT/train.LANG`` from archives, by their addresses; raises Failure if one is damaged."""
    with ExitStack() as stack:
        files = {lang: stack.enter_context(replacing(out / f"train.{lang}")) for lang in LANGS}
        for url, path in archives.items():
            try:
                with tarfile.open(path, "r:gz") as tar:
                    for lang, file in files.items():
                        file.writelines(tar.extractfile(f"{MEMBERS[url]}.{lang}") or ())
            except (KeyError, tarfile.TarError, OSError, EOFError, zlib.error) as error:
                if getattr(error, "errno", None) in FULL:
                    raise
                raise Failure(f"{path}: cannot be read ({error}): remove it and download it again") from None


def newstest(name: str, out: Path) -> None:
    """Writes a test set as ``OUT/NAME.LANG``, as sacreBLEU has it."""
    pair = "-".join(LANGS)
    for lang, side in zip(LANGS, [get_source_file(TESTS[name], pair), *get_reference_files(TESTS[name], pair)]):
        text = Path(side).read_text(encoding="utf-8")
        write_text(out / f"{name}.{lang}", html.unescape(text))  # sacreBLEU keeps the entities of SGML


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("--out", type=to_path, required=True, help="output folder: the text, and archives/")
    version = "version: 9, as in WMT14 (default), or 12, as in newer scripts"
    parser.add_argument("--news-commentary", choices=("9", "12"), default="9", help=version)
    args = parser.parse_args(argv)
    out = args.out
    other = "12" if args.news_commentary == "9" else "9"
    with locked(out, AS_LONG_AS_IT_TAKES):
        archives = {url: fetch(url, out / "archives") for url in MEMBERS if f"-nc-v{other}." not in url}
        steps = Steps(out)
        steps.setting(" ".join(f"{path.name} {path.stat().st_size}" for path in archives.values()))
        steps.step("extract", [f"train.{lang}" for lang in LANGS], lambda: extract(archives, out))
        for name in TESTS:
            outputs = [f"{name}.{lang}" for lang in LANGS]
            steps.step(name, outputs, lambda name=name: newstest(name, out))  # type: ignore[misc]
    say(f"WMT14 English-German: {out}")
