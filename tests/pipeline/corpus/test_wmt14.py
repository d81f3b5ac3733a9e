"""WMT14 from its archives: which lines in which order, test sets of one's own, and archives that are wrong."""

import gzip
import html
import subprocess

import pytest

from pipeline.command import Failure
from pipeline.corpus import archive
from pipeline.corpus.archive import read_file, sgm_segments
from pipeline.corpus.download import read_sums
from pipeline.corpus.wmt14 import NAMES, archives, check_test_set, extract

from ...commands import ENVIRONMENT, ROOT
from .archives import COUNTS, lines_of, sgm, write_archive


def test_the_corpus_is_read_from_the_archives_in_order(mirror, tmp_path):
    counts = extract(mirror, tmp_path / "out")
    assert counts == {a.name: COUNTS[a.subset] for a in archives()}
    for side, lang in enumerate(("en", "de")):
        for subset in COUNTS:
            expected = [line for a in archives() if a.subset == subset for line in lines_of(a, side)]
            file = tmp_path / f"out/{NAMES[subset]}.{lang}"
            assert file.read_text(encoding="utf-8").split("\n")[:-1] == expected
    names = sorted(f"{name}.{lang}" for name in ("train", "newstest2013", "newstest2014") for lang in ("en", "de"))
    assert sorted(p.name for p in tmp_path.glob("out/*")) == names


def test_segments_keep_their_order_and_lose_their_entities():
    text = sgm(["a &amp; b &lt;c&gt;", "  two\n lines &quot;x&quot; ", "&apos;&#228;"], "refset")
    second = '<DOC sysid="x" docid=b genre="news"><hl><seg id=1>third</seg></hl></DOC>'
    segments = {("a", 1): "a & b <c>", ("a", 2): 'two lines "x"', ("a", 3): "'ä", ("b", 1): "third"}
    assert list(sgm_segments((text + second).encode(), "x").items()) == list(segments.items())
    with pytest.raises(Failure, match="document 'b' comes twice"):
        sgm_segments((second + text + second).encode(), "x")
    with pytest.raises(Failure, match="not in order"):
        sgm_segments(text.replace('id="2"', 'id="3"').encode(), "x")
    with pytest.raises(Failure, match="has no segments"):
        sgm_segments(b"plain\n", "x")


@pytest.mark.parametrize(
    "change,message",
    [
        ("filtered", "2737 lines are the filtered newstest2014"),
        ("sides", "the two sides must be aligned"),
        ("member", "has no test-full/newstest2014-deen-ref.de.sgm"),
        ("latin", "not UTF-8"),
        ("damaged", "cannot be read"),
        ("missing", "test-full.tgz not found: download it first"),
        ("empty", "training-parallel-europarl-v7.tgz, en: is empty: is it the right file?"),
    ],
)
def test_wrong_archives_are_refused_in_one_line_and_leave_nothing(mirror, tmp_path, change, message):
    test = archives()[-1]
    count = 2737 if change == "filtered" else 5
    source, target = sgm(["x"] * count, "srcset"), sgm(["x"] * (4 if change == "sides" else count), "refset")
    target = target.encode() + (b"\xff" if change == "latin" else b"")
    members = {test.members[0]: source, test.members[1]: target}
    if change == "member":
        del members[test.members[1]]
    write_archive(mirror / test.name, members)
    if change == "empty":
        write_archive(mirror / archives()[0].name, dict.fromkeys(archives()[0].members, ""))
    if change == "damaged":
        (mirror / test.name).write_bytes((mirror / test.name).read_bytes()[:150])
    if change == "missing":
        (mirror / test.name).unlink()
    with pytest.raises(Failure, match=message) as refused:
        extract(mirror, tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "out").glob("newstest2014*"))


@pytest.mark.parametrize("kind", ["txt", "gz", "sgm"])
def test_own_test_sets_are_taken_as_plain_text_and_in_sgml(mirror, tmp_path, kind):
    lines, files = ["a & b", 'der "x"', "c"], []
    for lang in ("en", "de"):
        files.append(tmp_path / f"own.{lang}{'' if kind == 'txt' else '.' + kind}")
        text = sgm([html.escape(line) for line in lines], "refset") if kind == "sgm" else "\n".join(lines) + "\n"
        files[-1].write_bytes(gzip.compress(text.encode()) if kind == "gz" else text.encode())
    out = tmp_path / "out"
    (mirror / archives()[-1].name).unlink()  # is not needed
    command = [ROOT / "scripts/download.sh", "--out", out, "--mirror", mirror, "--test", f"{files[0]} {files[1]}"]
    for again in (False, True):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=ENVIRONMENT, check=True)
        assert ("done before" in done.stderr) == again
    assert (out / "newstest2014.de").read_text(encoding="utf-8").split("\n") == [*lines, ""]
    assert sum(1 for _ in (out / "newstest2013.en").open()) == COUNTS["valid"]
    assert "train" in {path.stem for path in out.iterdir()} and len(read_sums(out / "archives")) == 4


def documents(order, kind):
    segments = {name: "".join(f'<seg id="{n}">{kind} {name}{n}</seg>' for n in (1, 2)) for name in order}
    return "".join(f'<doc sysid="{kind}" docid="{name}">{text}</doc>' for name, text in segments.items())


@pytest.mark.parametrize("kind", ["archive", "own"])
def test_documents_in_another_order_are_matched(mirror, tmp_path, kind):
    texts, own = [documents("abc", "en"), documents("cab", "de")], {}
    write_archive(mirror / archives()[-1].name, dict(zip(archives()[-1].members, texts)))
    if kind == "own":
        for lang, text in zip(("en", "de"), texts):
            (tmp_path / f"{lang}.sgm").write_text(text)
        own = {"test": (tmp_path / "en.sgm", tmp_path / "de.sgm")}
    extract(mirror, tmp_path / "out", own=own)
    for lang in ("en", "de"):
        lines = (tmp_path / f"out/newstest2014.{lang}").read_text().splitlines()
        assert lines == [f"{lang} {name}{n}" for name in "abc" for n in (1, 2)]
    texts[1] = documents("abd", "de")
    write_archive(mirror / archives()[-1].name, dict(zip(archives()[-1].members, texts)))
    with pytest.raises(Failure, match="segment 1 of document 'c' is on one side alone"):
        extract(mirror, tmp_path / "out")


def test_what_is_too_large_is_refused_before_it_is_read(mirror, tmp_path, monkeypatch):
    first, test = archives()[0], archives()[-1]
    write_archive(mirror / first.name, {member: "x" * 100001 for member in first.members})
    with pytest.raises(Failure, match=r"europarl-v7\.de-en\.en, line 1: longer than 100,000 bytes"):
        extract(mirror, tmp_path / "out")
    monkeypatch.setattr(archive, "LARGEST_TEST_SET", 99)
    with pytest.raises(Failure, match=r"src\.en\.sgm has \d+ bytes, and 99 are the most: is it the right file\?"):
        next(archive.read_member(mirror / test.name, test.members[0]))
    (tmp_path / "own.sgm").write_text("x" * 501)
    with pytest.raises(Failure, match=r"own\.sgm has 501 bytes, and 99 are the most"):
        next(read_file(tmp_path / "own.sgm"))
    monkeypatch.setattr(archive, "LARGEST_TEXT", 5)
    with pytest.raises(Failure, match=r"europarl-v7\.de-en\.en has 100,001 bytes, and 5 are the most"):
        extract(mirror, tmp_path / "out")


def test_the_filtered_test_set_is_refused_as_plain_text_too(tmp_path):
    file = tmp_path / "newstest2014.en"
    file.write_text("x\n" * 2737)
    with pytest.raises(Failure, match="take the full one, 3,003 lines"):
        check_test_set("newstest2014.en", sum(1 for _ in read_file(file)))
    check_test_set("newstest2014.en", 3003)


def test_the_newer_news_commentary_is_an_option(mirror, tmp_path):
    newer = archives(12)
    assert [a.name for a in newer if a not in archives(9)] == ["training-parallel-nc-v12.tgz"]
    write_archive(mirror / newer[2].name, {m: "neu\n" * 3 for m in newer[2].members})
    assert extract(mirror, tmp_path, 12)[newer[2].name] == 3
