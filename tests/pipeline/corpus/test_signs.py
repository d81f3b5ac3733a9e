"""Signs of bad text: good text has none, and each fault that is planted in it is told."""

import re
from functools import partial

import pytest
from sacremoses import MosesTokenizer

from pipeline.command import Failure
from pipeline.corpus.signs import check_signs

from ...commands import ROOT

LANGS = ("en", "de")
PAIRS = 2000


@pytest.fixture(scope="module")
def pairs():
    sides = [(ROOT / f"data/demo/train.{lang}").read_text(encoding="utf-8").split("\n") for lang in LANGS]
    return list(zip(*(side[:PAIRS] for side in sides)))


def told(folder, pairs, capsys, langs=LANGS):
    """What is said of these pairs: a message each, and whether they are refused."""
    for lang, side in zip(langs, zip(*pairs)):
        (folder / f"set.{lang}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8", newline="")
    refused = ""
    try:
        check_signs(folder / "set", langs, len(pairs))
    except Failure as error:
        refused = str(error)
    return capsys.readouterr().err.splitlines(), refused


def in_target(change):
    """A change of every other target."""
    return lambda pairs: [(s, change(t) if i % 2 else t) for i, (s, t) in enumerate(pairs)]


tokenised = partial(MosesTokenizer("de").tokenize, return_str=True, escape=False)


def cyrillic(text):
    return (
        text.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопкрстуввхыз")).capitalize()
    )


@pytest.mark.parametrize(
    "plant,name,share",
    [
        (in_target(lambda text: text.replace("e ", "e &apos; ")), "set.de", 0.5),
        (in_target(tokenised), "set.de", 0.5),
        (in_target(str.lower), "set.de", 0.5),
        (in_target(lambda text: text[:1].lower() + text[1:]), "set.de", 0.5),
        (in_target(lambda text: text.encode("utf-8").decode("cp1252", "replace")), "set.de", 0.5),
        (in_target(lambda text: text.replace("a", "\ufffd")), "set.de", 0.5),
        (in_target(cyrillic), "set.de", 0.5),
        (lambda pairs: [(s, s if i % 3 == 0 else t) for i, (s, t) in enumerate(pairs)], "set", 1 / 3),
        (lambda pairs: [(s, "KEINE" if i % 5 == 0 else t) for i, (s, t) in enumerate(pairs)], "set", 1 / 5),
    ],
)
def test_each_fault_is_told_in_one_line_with_count_and_example(pairs, tmp_path, capsys, plant, name, share):
    planted = plant(pairs)
    (message,), refused = told(tmp_path, planted, capsys)
    assert not refused and f" {name}: " in message
    count, lines = (int(digits.replace(",", "")) for digits in re.search(r"([\d,]+) of ([\d,]+) ", message).groups())
    changed = [pair for pair, before in zip(planted, pairs) if pair != before]
    assert lines == PAIRS and 0.7 * share * PAIRS < count <= len(changed)
    example = re.search(r"'(.+)'", message)[1]
    assert any(line.startswith(example) for pair in changed for line in pair)


def test_good_text_has_no_sign(pairs, tmp_path, capsys):
    assert told(tmp_path, pairs, capsys) == ([], "")
    assert told(tmp_path, [pair[:1] for pair in pairs], capsys, ["en"]) == ([], "")


def test_sentences_of_scripts_without_large_letters_begin_as_they_should(tmp_path, capsys):
    for lang, sentence in (("ka", "ძაღლი ხედავს {} კატას."), ("ar", "يرى الكلب {} قطط.")):
        assert told(tmp_path, [(sentence.format(i),) for i in range(PAIRS)], capsys, [lang]) == ([], "")


def lost(pairs, first, last, by=1):
    """The targets from pair ``first`` to ``last`` moved by some lines: so many are lost before, and added behind."""
    targets = [target for _, target in pairs]
    moved = [*targets[:first], *targets[first + by : last], *targets[first : first + by], *targets[last:]]
    return [(source, target) for (source, _), target in zip(pairs, moved)]


@pytest.mark.parametrize("by", [1, 7, 60])
def test_a_line_that_is_lost_on_one_side_is_told_with_its_place(pairs, tmp_path, capsys, by):
    told_of, refused = told(tmp_path, lost(pairs, 700, PAIRS, by), capsys)
    place = re.search(r"([\d,]+) of 2,000 .* line (\d+) ", refused)
    assert not told_of and int(place[2]) in (501, 1001) and place[1] in ("1,000", "1,500")
    (message,), refused = told(tmp_path, [*pairs * 3, *lost(pairs, 1000, 1500, by), *pairs], capsys)
    assert not refused and " 500 of 10,000 " in message and " line 7001 " in message


def test_sides_in_another_order_are_refused(pairs, tmp_path, capsys):
    other = zip((source for source, _ in pairs), sorted(target for _, target in pairs))
    assert " 2,000 of 2,000 pairs " in told(tmp_path, list(other), capsys)[1]


def test_swapped_sides_are_refused_where_their_scripts_differ(pairs, tmp_path, capsys):
    russian = [(source, cyrillic(target)) for source, target in pairs]
    assert told(tmp_path, russian, capsys, ("en", "ru")) == ([], "")
    assert " 2,000 of 2,000 lines are not in the script of ru" in told(tmp_path, russian, capsys, ("ru", "en"))[1]
    assert told(tmp_path, russian, capsys, ("sr", "kk")) == ([], "")  # of which both scripts are used
