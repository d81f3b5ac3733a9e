"""From raw text to translations in a language without spaces, whose code has a region."""

import pytest

from fairseq_rope.export import export
from fairseq_rope.translation import RoFormerModel
from pipeline.files import read_lines
from pipeline.text import TEXTS

from ..commands import SMALL, run, three_sets
from ..pipeline.chinese import chinese

MODEL = TEXTS["sentencepiece"].codes

pytestmark = pytest.mark.slow

TRAIN = ["--arch", "roformer_tiny", "--max-update", 4, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
TRAIN += ["--max-target-positions", 80]  # where translations of such a model end


@pytest.fixture(scope="module")
def data(corpus, tmp_path_factory):
    """The corpus with an invented Chinese target, prepared."""
    folder = tmp_path_factory.mktemp("chinese")
    for name in ("train", "valid", "test"):
        english = read_lines(corpus / f"{name}.en")
        (folder / f"{name}.en-GB").write_text("".join(f"{line}\n" for line in english), encoding="utf-8")
        (folder / f"{name}.zh-CN").write_text("".join(f"{chinese(x)}\n" for x in english), encoding="utf-8")
    languages = ["--source", "en-GB", "--target", "zh-CN", "--subwords", "sentencepiece"]
    run("scripts/prepare.sh", *three_sets(folder), *languages, "--workers", 2, "--out", folder / "data")
    return folder / "data"


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    run("scripts/train.sh", "--data", data, "--out", out, *TRAIN)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 2)
    return out


def test_every_later_step_follows_prepare_json(data, model, tmp_path):
    shown = run("scripts/score.sh", "--run", model, "--data", data).stdout
    assert "|tok:zh|" in shown and "moses" not in shown and "on the pieces of SentencePiece" in shown
    text = "".join(f"{line}\n" for line in read_lines(data / "raw/test.en-GB")[:5])
    translated = run("scripts/translate.sh", model, "--engine", "fairseq", input=text).stdout.splitlines()
    assert translated == read_lines(model / "scores/test.hyp.zh-CN")[:5]
    hub = RoFormerModel.from_pretrained(str(model), "checkpoint.pt", ".", bpe="sentencepiece").eval()
    assert hub.translate(text.splitlines(), beam=4, lenpen=0.6) == translated
    export(model, tmp_path / "exported")
    assert (tmp_path / "exported" / MODEL).read_bytes() == (data / MODEL).read_bytes()
