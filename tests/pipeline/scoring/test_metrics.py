"""The BLEU figures: each is what its name says, and what sacrebleu's command line gives."""

import random
import sys

import pytest

from pipeline.scoring import metrics
from pipeline.scoring.metrics import Texts
from pipeline.scoring.metrics.bleu import split_compounds, standard_bleu
from pipeline.scoring.statistics import bleu, columns, rows

from ...commands import ROOT, run
from ..chinese import chinese

DEMO = ROOT / "data" / "demo" / "test.de"
TRICKY = [
    "Der 33-jährige US-Amerikaner fuhr mit 210 km/h und zahlte 1.000 £ Strafe.",
    'Er sagt: "Ja, so geht\'s", und fliegt nach New York-Stadt.',
    "„Das ist nichts“, sagte O'Connor – und ging ...",  # noqa: RUF001
    "AT&T & Söhne [siehe S. 3 | 4] kosten 1.234,56 €; <unk> ist kein Wort.",
    "Es sind 5,5 Prozent (oder 3 % bis 4%), z. B. am 3. Mai um 12:30 Uhr!",
    "Ärzte für Hals-Nasen-Ohren-Heilkunde: info@beispiel.de, http://beispiel.de/a-b",
]
REFERENCES = TRICKY + DEMO.read_text(encoding="utf-8").splitlines()[:100]


def score(hypotheses, references, lang):
    return metrics.score(Texts(references, hypotheses, references, lang))


def perturbed(lines):
    """Hypotheses with some words dropped, doubled, exchanged or in the other case, and now and then none at all."""
    rng, hypotheses = random.Random(1), []
    for number, line in enumerate(lines):
        words = line.split()
        for _ in range(rng.randrange(5)):
            i, j = rng.randrange(len(words)), rng.randrange(len(words))
            words[i : i + 1] = (
                rng.choice([[], [words[i]] * 2, [words[j]], [words[i].swapcase()]]) if len(words) > 1 else words
            )
        hypotheses.append("" if number % 40 == 39 else " ".join(words))
    return hypotheses


HYPOTHESES = perturbed(REFERENCES)


def piped(lines, *command):
    """The lines through a program."""
    return run(*command, input="".join(line + "\n" for line in lines)).stdout.removesuffix("\n").split("\n")


def moses(lines):
    return piped(lines, *"sacremoses -q -l de tokenize".split())


def split(lines):
    return piped(moses(lines), "sed", "-E", "s/([^ ])-([^ ])/\\1 ##AT##-##AT## \\2/g")


def command_line(folder, hypotheses, references, *flags):
    """What the sacrebleu program prints for the same lines in files."""
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (folder / name).write_bytes("".join(line + "\n" for line in lines).encode())
    command = [sys.executable, "-m", "sacrebleu", folder / "ref", "-i", folder / "hyp", "-b", "-w", "2", *flags]
    return float(run(*command).stdout)


@pytest.fixture(scope="module")
def scores():
    return {key: entry["score"] for key, entry in score(HYPOTHESES, REFERENCES, "de").items()}


NONE = ("-m", "bleu", "--tokenize", "none", "--force")


@pytest.mark.parametrize(
    ("key", "change", "flags"),
    [
        ("sacrebleu", list, ("-m", "bleu")),
        ("chrf", list, ("-m", "chrf")),
        ("bleu_moses", moses, NONE),
        ("bleu_moses_compound_split", split, NONE),
        ("bleu_moses_lowercase", moses, (*NONE, "-lc")),
    ],
)
def test_each_score_is_what_the_sacrebleu_program_prints(tmp_path, scores, key, change, flags):
    assert scores[key] == command_line(tmp_path, change(HYPOTHESES), change(REFERENCES), *flags)


def test_compounds_are_split_as_in_the_published_scripts():
    assert split_compounds(["a-b - c-d-e -f"]) == ["a ##AT##-##AT## b - c ##AT##-##AT## d-e -f"]
    assert split_compounds(["5%-Klausel (a)-b"]) == ["5% ##AT##-##AT## Klausel (a) ##AT##-##AT## b"]


CHINESE = [chinese(line) for line in (ROOT / "data/demo/test.en").read_text(encoding="utf-8").splitlines()[:100]]
CHINESE_HYPOTHESES = ["".join(c for i, c in enumerate(line) if i % 9 != 4) for line in CHINESE]


@pytest.mark.parametrize(("lang", "tokens"), [("zh-CN", "zh"), ("th", "char"), ("ko", "ko-mecab")])
def test_the_tokens_follow_the_target_language(tmp_path, lang, tokens):
    if tokens == "ko-mecab":
        pytest.importorskip("mecab_ko")
    scores = score(CHINESE_HYPOTHESES, CHINESE, lang)
    assert scores["sacrebleu"]["score"] == command_line(tmp_path, CHINESE_HYPOTHESES, CHINESE, "-tok", tokens)
    assert f"|tok:{tokens}" in scores["sacrebleu"]["signature"]
    statistics = columns(["x"] * len(CHINESE), CHINESE_HYPOTHESES, CHINESE, standard_bleu(lang))
    assert round(bleu(rows(statistics)), 2) == scores["sacrebleu"]["score"]
    assert tokens == "ko-mecab" or not [key for key in scores if "moses" in key]
