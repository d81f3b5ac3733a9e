"""fairseq's plain transformer, trained and converted, in fairseq's tools: the same output, and the training goes on."""

import shutil

import pytest
import torch

from fairseq_rope import RoFormerModel, products

from ..commands import SMALL, fairseq, parameters, run

pytestmark = pytest.mark.slow

TOOL = ["python", "-m", "fairseq_rope", "convert"]


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """fairseq's own transformer, trained and averaged by the scripts, and its conversion beside it."""
    out = tmp_path_factory.mktemp("plain") / "run"
    options = ["--data", data, "--arch", "fairseq_transformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 30, "--save-every", 6, "--", *SMALL, "--max-tokens", 600, "--lr", 0.005]
    run("scripts/train.sh", *options, *extra)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 2)
    converted = out.with_name("converted")
    shutil.copytree(out, converted)
    done = run(*TOOL, out / "checkpoint.pt", "--to", "plugin", "--out", converted / "checkpoint.pt")
    assert "transformer_sinusoidal_tiny" in done.stdout
    return out, converted


def test_search_finds_the_same_hypotheses_and_scores(data, plain, corpus, monkeypatch):
    monkeypatch.setenv(products.VARIABLE, products.BLAS)  # fairseq's own; the faster one may round otherwise
    sources = (corpus / "test.en").read_text(encoding="utf-8").splitlines()
    found = []
    for folder in plain:
        hub = RoFormerModel.from_pretrained(
            str(folder), "checkpoint.pt", ".", tokenizer="moses", bpe="subword_nmt", source_lang="en", target_lang="de"
        )
        assert isinstance(hub.models[0], RoFormerModel) == (folder == plain[1])
        found.append(hub.generate([hub.encode(line) for line in sources], beam=4, lenpen=0.6))
    assert len(found[0]) == 21
    for stock, ours in zip(*found):
        assert len(stock) == len(ours) == 4
        for one, other in zip(stock, ours):
            assert all(torch.equal(one[name], other[name]) for name in ("tokens", "positional_scores", "score"))


def test_training_goes_on_where_it_was(data, plain, tmp_path):
    """With the optimizer's state: fairseq's own model and the converted one make the same next steps."""
    last = plain[0] / "checkpoints/checkpoint_last.pt"
    run(*TOOL, last, "--to", "plugin", "--out", tmp_path / "last.pt")
    common = [*SMALL, "--share-all-embeddings", "--dropout", 0, "--max-tokens", 600, "--lr", 0.005]
    common += ["--optimizer", "fused_adam", "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt"]
    common += ["--warmup-updates", 10]
    common += ["--criterion", "fused_label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--max-update", 34]
    common += ["--no-epoch-checkpoints", "--disable-validation"]
    trained = []
    for arch, path in (("fairseq_transformer_tiny", last), ("transformer_sinusoidal_tiny", tmp_path / "last.pt")):
        options = ["--arch", arch, "--restore-file", path, "--save-dir", tmp_path / arch]
        log = fairseq("train", data, *common, *options)
        assert "@ 30 updates" in log.stdout + log.stderr
        trained.append(parameters(tmp_path / arch / "checkpoint_last.pt"))
    before = parameters(last)
    moved, apart = (
        max((value - others[name]).abs().max().item() for name, value in trained[0].items())
        for others in (before, trained[1])
    )
    assert apart < 0.05 * moved  # gradients differ in the last bits; without the state: further apart than they moved
