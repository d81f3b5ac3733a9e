"""WMT14 from its archives: which lines in which order, and what is refused."""

import html
import io
import tarfile

import pytest

from pipeline.command import Failure
from pipeline.corpus import wmt14

from ...commands import ENVIRONMENT, run


def write_archives(folder, train):
    """Makes a folder with the archives of training text; ``train`` has for each the lines of both sides."""
    folder.mkdir(parents=True)
    for (url, member), sides in zip(wmt14.MEMBERS.items(), train):
        members = [f"{member}.{lang}" for lang in wmt14.LANGS]
        with tarfile.open(folder / url.rsplit("/", 1)[1], "w:gz") as tar:
            for name, lines in ((f"{member}.fr", ["pas ici"]), *zip(members, sides)):
                data = "".join(f"{line}\n" for line in lines).encode()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return folder


def write_tests(folder, sets):
    """sacreBLEU's cache of the test sets; ``sets`` has the lines of both sides by sacreBLEU's name."""
    for name, sides in sets.items():
        for side, lines in zip(("src", "ref", "docid", "genre", "origlang"), [*sides, [], [], []]):
            path = folder / name / f"{name.replace('/', '_')}.en-de.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{html.escape(line)}\n" for line in lines), encoding="utf-8")


def lines(name, count=3):
    return [[f"{lang} '{name}' & \u2028{number}" for number in range(count)] for lang in wmt14.LANGS]


@pytest.fixture
def archives(tmp_path):
    return write_archives(tmp_path / "out/archives", [lines("first"), lines("second", 5), lines("third")])


def test_the_text_is_that_of_the_archives_in_their_order_and_of_sacrebleu(archives, tmp_path):
    write_tests(tmp_path / "cache", {"wmt13": lines("valid"), "wmt14/full": lines("test", 4)})
    out, environ = archives.parent, {**ENVIRONMENT, "SACREBLEU": str(tmp_path / "cache")}
    run("scripts/download.sh", "--out", out, env=environ)
    parts = (lines("first"), lines("second", 5), lines("third"))
    for side, lang in enumerate(wmt14.LANGS):
        train = [line for part in parts for line in part[side]]
        assert (out / f"train.{lang}").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in train)
        test = "".join(f"{line}\n" for line in lines("test", 4)[side])
        assert (out / f"newstest2014.{lang}").read_text(encoding="utf-8") == test
    assert run("scripts/download.sh", "--out", out, env=environ).stderr.count("done before") == 3


def test_a_download_that_was_interrupted_is_continued_and_a_damaged_archive_leaves_no_text(archives, tmp_path):
    archive = archives / next(iter(wmt14.MEMBERS)).rsplit("/", 1)[1]
    (tmp_path / "a").mkdir()
    part = tmp_path / f"a/{archive.name}.part"
    part.write_bytes(archive.read_bytes()[:100])
    made = wmt14.fetch(archive.as_uri(), tmp_path / "a")
    assert made.read_bytes() == archive.read_bytes() and not part.exists()
    made.write_bytes(made.read_bytes()[:-40])
    with pytest.raises(Failure, match="cannot be read"):
        wmt14.extract({next(iter(wmt14.MEMBERS)): made}, tmp_path / "text")
    assert not list((tmp_path / "text").iterdir())
