"""Checkpoints between the layouts of RoPE, by the command."""

import argparse

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint

from ..commands import failure
from ..helpers import FP32, build_with, decoder_input, same, sentences
from ..positions.whole_models import logits


@pytest.mark.parametrize("dim", [0, 4])  # the whole head of 8 channels, or a part
def test_converts_between_the_layouts_of_rope_and_says_what_is_lost(tmp_path, capsys, dim):
    model = build_with("rope", rope_dim=dim)
    cfg = argparse.Namespace(arch="roformer_tiny", encoder_position="rope", decoder_position="rope", rope_dim=dim)
    vars(cfg).update(encoder_attention_heads=4, decoder_attention_heads=4, encoder_embed_dim=32, decoder_embed_dim=32)
    extra = {"epoch": 3, "ema": model.state_dict()}
    state = {"cfg": {"model": cfg}, "model": model.state_dict(), "extra_state": extra, "last_optimizer_state": {}}
    save_checkpoint(state, tmp_path / "a.pt")
    source, out = str(tmp_path / "a.pt"), str(tmp_path / "b.pt")
    assert main(["convert", source, "--to", "half", "--out", out]) == 0
    assert "without the optimizer's state" in capsys.readouterr().out
    converted = load_checkpoint(tmp_path / "b.pt")
    other = build_with("rope", rope_dim=dim, rope_layout="half", seed=5)
    other.load_state_dict(converted["model"])
    text, target = sentences(3, 9), decoder_input(sentences(3, 8, seed=2))
    torch.testing.assert_close(logits(other, text, target), logits(model, text, target), **FP32)
    assert not same(converted["model"], model.state_dict())
    assert same(converted["model"], converted["extra_state"]["ema"]) and converted["extra_state"]["epoch"] == 3
    assert converted["cfg"]["model"].rope_layout == "half"
    assert main(["convert", out, "--to", "interleaved", "--out", source]) == 0
    assert same(load_checkpoint(tmp_path / "a.pt")["model"], model.state_dict())
    assert "half already" in failure(capsys, "convert", out, "--to", "half", "--out", tmp_path / "c.pt")
    state["model"] = {name: value for name, value in state["model"].items() if "decoder.layers" not in name}
    save_checkpoint(state, tmp_path / "a.pt")
    assert "the decoder's" in failure(capsys, "convert", source, "--to", "half", "--out", tmp_path / "c.pt")
    assert not (tmp_path / "c.pt").exists()
