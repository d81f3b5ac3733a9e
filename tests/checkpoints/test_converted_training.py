"""fairseq's plain transformer, trained and converted, in fairseq's tools: the same output, and the training goes on."""

import shutil

import pytest
import torch

from fairseq_rope import RoFormerModel
from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.checkpoints.fairseq_transformer import convert_checkpoint

from ..commands import SMALL, fairseq, hypotheses, parameters, run
from ..helpers import same

pytestmark = pytest.mark.slow

TOOL = ["python", "-m", "fairseq_rope", "convert"]


@pytest.fixture(scope="module")
def plain(data, tmp_path_factory):
    """fairseq's own transformer, trained and averaged by the scripts, and its conversion beside it."""
    out = tmp_path_factory.mktemp("plain") / "run"
    options = ["--data", data, "--arch", "fairseq_transformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 60, "--save-every", 12, "--", *SMALL, "--max-tokens", 600, "--lr", 0.005]
    run("scripts/train.sh", *options, *extra)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 2)
    converted = out.with_name("converted")
    shutil.copytree(out, converted)
    done = run(*TOOL, out / "checkpoint.pt", "--to", "plugin", "--out", converted / "checkpoint.pt")
    assert done.stdout == f"{converted}/checkpoint.pt: {out}/checkpoint.pt as transformer_sinusoidal_tiny\n"
    return out, converted


def test_search_finds_the_same_hypotheses_and_scores(data, plain, corpus):
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
            assert torch.equal(one["tokens"], other["tokens"])
            assert torch.equal(one["positional_scores"], other["positional_scores"])
            assert torch.equal(one["score"], other["score"])


def test_generate_interactive_and_translate_work_and_the_way_back_gives_the_same_output(data, plain, corpus, tmp_path):
    run(*TOOL, plain[1] / "checkpoint.pt", "--to", "fairseq", "--out", tmp_path / "back.pt")
    assert same(parameters(tmp_path / "back.pt"), parameters(plain[0] / "checkpoint.pt"))
    paths = [plain[0] / "checkpoint.pt", plain[1] / "checkpoint.pt", tmp_path / "back.pt"]
    search = ["--beam", 4, "--lenpen", 0.6, "--required-batch-size-multiple", 1]
    stock, ours, back = (fairseq("generate", data, "--path", path, *search).stdout for path in paths)
    scored = [[line for line in out.splitlines() if line[:2] in ("H-", "P-")] for out in (stock, back)]
    assert len(scored[0]) == 42 and scored[0] == scored[1]
    assert hypotheses(ours) == hypotheses(stock)
    source = (data / "bpe/test.en").read_text()
    interactive = fairseq("interactive", data, "--path", paths[1], *search[:4], "--buffer-size", 30, input=source)
    assert hypotheses(interactive.stdout) == hypotheses(stock)
    raw = (corpus / "test.en").read_text()
    translated = [run("scripts/translate.sh", folder, "--engine", "fairseq", input=raw).stdout for folder in plain]
    assert len(translated[0].splitlines()) == 21 and translated[0] == translated[1]


def test_training_goes_on_where_it_was(data, plain, tmp_path):
    """With the optimizer's state: fairseq's own model and the converted one make the same next steps."""
    last = plain[0] / "checkpoints/checkpoint_last.pt"
    run(*TOOL, last, "--to", "plugin", "--out", tmp_path / "last.pt")
    common = [*SMALL, "--share-all-embeddings", "--dropout", 0, "--max-tokens", 600, "--lr", 0.005]
    common += ["--optimizer", "fused_adam", "--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt"]
    common += ["--warmup-updates", 10]
    common += ["--criterion", "fused_label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--max-update", 64]
    common += ["--no-epoch-checkpoints", "--disable-validation"]
    trained = []
    for arch, path in (("fairseq_transformer_tiny", last), ("transformer_sinusoidal_tiny", tmp_path / "last.pt")):
        options = ["--arch", arch, "--restore-file", path, "--save-dir", tmp_path / arch]
        log = fairseq("train", data, *common, *options)
        assert "@ 60 updates" in log.stdout + log.stderr
        trained.append(parameters(tmp_path / arch / "checkpoint_last.pt"))
    before = parameters(last)
    moved, apart = (
        max((value - others[name]).abs().max().item() for name, value in trained[0].items())
        for others in (before, trained[1])
    )
    assert apart < 0.05 * moved  # gradients differ in the last bits; without the state: further apart than they moved


def test_converted_checkpoints_average_and_learned_ones_serve_for_finetuning(data, plain, tmp_path):
    updates = sorted((plain[0] / "checkpoints").glob("checkpoint_*_*.pt"))[-2:]
    for path in updates:
        run(*TOOL, path, "--to", "plugin", "--out", tmp_path / path.name)
    averaged = average_checkpoints([tmp_path / path.name for path in updates])
    assert same(convert_checkpoint(averaged, "fairseq")["model"], average_checkpoints(updates)["model"])

    common = [*SMALL, "--share-all-embeddings", "--optimizer", "adam", "--lr", 0.001, "--max-tokens", 600]
    common += ["--no-epoch-checkpoints", "--disable-validation", "--max-update", 2]
    learned = ["--encoder-learned-pos", "--decoder-learned-pos", "--save-dir", tmp_path / "a"]
    fairseq("train", data, *common, "--arch", "fairseq_transformer_tiny", *learned)
    done = run(*TOOL, tmp_path / "a/checkpoint_last.pt", "--to", "plugin", "--out", tmp_path / "learned.pt")
    assert done.stdout.endswith("as transformer_learned_tiny, without the optimizer's state\n")
    finetune = ["--arch", "transformer_learned_tiny", "--finetune-from-model", tmp_path / "learned.pt"]
    fairseq("train", data, *common, *finetune, "--save-dir", tmp_path / "b")
    start, end = parameters(tmp_path / "learned.pt"), parameters(tmp_path / "b/checkpoint_last.pt")
    moved = max((value - end[name]).abs().max().item() for name, value in start.items())
    assert 0 < moved < 0.003  # two steps of Adam at 0.001, from where the other model was
