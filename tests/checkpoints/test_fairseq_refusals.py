"""Conversion between fairseq's plain transformer and this plugin's model: what is refused, in one line."""

import argparse

import pytest

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.fairseq_transformer import convert_checkpoint
from fairseq_rope.checkpoints.files import CheckpointError, save_checkpoint

from .test_fairseq_transformer import BOTH_LEARNED, checkpoint


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(cross_self_attention=True), "--cross-self-attention is not supported here"),
        (dict(encoder_xformers_att_config="{}"), "--encoder-xformers-att-config is not supported here"),
        (dict(quant_noise_scalar=0.5), "--quant-noise-scalar does not convert"),
        (dict(base_layers=1), "--base-layers is not supported here"),
        (dict(arch="transformer_align"), "transformer_align is not an architecture of fairseq's plain transformer"),
        (dict(arch="lstm"), "lstm is not an architecture of fairseq's plain transformer"),
        (dict(arch="somebodys_own"), "somebodys_own is not an architecture of fairseq's plain transformer"),
        (dict(arch="roformer_tiny"), "roformer_tiny is an architecture of this plugin already"),
        (BOTH_LEARNED, "there is no parameter encoder.embed_positions.weight"),
    ],
)
def test_what_this_plugin_lacks_is_refused(changes, message):
    state = checkpoint("transformer_tiny")
    vars(state["cfg"]["model"]).update(changes)
    with pytest.raises(CheckpointError, match=message):
        convert_checkpoint(state, "plugin")


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("roformer_tiny", {}, "the encoder's positions are rope, and fairseq has only sinusoidal, learned, none"),
        ("transformer_learned_tiny", dict(decoder_position="alibi"), "the decoder's positions are alibi"),
        ("transformer_sinusoidal_tiny", dict(decoder_position="none"), "the decoder alone has no positions"),
        ("transformer_tiny", {}, "transformer_tiny is an architecture of fairseq's already"),
        ("transformer_align", {}, "transformer_align is not a translation model of this plugin"),
    ],
)
def test_what_fairseq_lacks_is_refused(arch, options, message):
    with pytest.raises(CheckpointError, match=message):
        convert_checkpoint(checkpoint(arch, **options), "fairseq")


def test_a_part_of_a_sharded_checkpoint_is_refused(tmp_path, capsys):
    state = {**checkpoint("roformer_tiny"), "shard_metadata": {}}
    save_checkpoint(state, tmp_path / "a.pt")
    for to in ("half", "fairseq"):
        assert main(["convert", str(tmp_path / "a.pt"), "--to", to, "--out", str(tmp_path / "b.pt")]) == 1
        assert "a part of a sharded checkpoint: join the parts first" in capsys.readouterr().err


def test_learned_tables_that_do_not_fit_and_their_moving_average_are_refused():
    state = checkpoint("transformer_tiny", **BOTH_LEARNED)
    with pytest.raises(CheckpointError, match="--store-ema"):
        convert_checkpoint({**state, "extra_state": {"ema": {}}}, "plugin")
    state["cfg"]["model"].max_source_positions = 66
    with pytest.raises(CheckpointError, match="weight has 66 rows, too few for 66 positions and the padding"):
        convert_checkpoint(state, "plugin")


def test_a_configuration_without_an_architecture_is_refused():
    for cfg in ({}, argparse.Namespace(_name="transformer")):
        with pytest.raises(CheckpointError, match="names no architecture"):
            convert_checkpoint({"cfg": {"model": cfg}, "model": {}}, "plugin")


def test_a_failure_is_one_line_and_writes_nothing(tmp_path, capsys):
    for name, arch in (("rope", "roformer_tiny"), ("stock", "transformer_tiny")):
        save_checkpoint(checkpoint(arch), tmp_path / f"{name}.pt")
    (tmp_path / "damaged.pt").write_bytes((tmp_path / "stock.pt").read_bytes()[:2000])
    before = sorted(tmp_path.iterdir())
    for name, to, message in (
        ("rope", "fairseq", "positions are rope"),
        ("damaged", "plugin", "damaged"),
        ("missing", "plugin", "no such checkpoint"),
    ):
        assert main(["convert", str(tmp_path / f"{name}.pt"), "--to", to, "--out", str(tmp_path / "x.pt")]) == 1
        printed = capsys.readouterr().err
        assert printed.startswith("fairseq-rope: error: ") and printed.count("\n") == 1 and message in printed
    for wrong in ([], ["--to", "plugin"]):
        with pytest.raises(SystemExit, match="2"):
            main(["convert", str(tmp_path / "stock.pt"), *wrong])
    assert sorted(tmp_path.iterdir()) == before
