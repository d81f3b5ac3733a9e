"""Conversion between fairseq's plain transformer and this plugin's model: what is equal, what is kept and refused."""

import argparse
import copy

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import OmegaConf

from fairseq_rope import RoFormerModel
from fairseq_rope.checkpoints.fairseq_transformer import convert_checkpoint
from fairseq_rope.checkpoints.files import CheckpointError, save_checkpoint

from ..helpers import PAD, STOCK_EVALUATES, decoder_input, same, sentences, task

DIMENSIONS = dict(encoder_embed_dim=32, decoder_embed_dim=32, encoder_ffn_embed_dim=48, decoder_ffn_embed_dim=48)
DIMENSIONS.update(max_source_positions=64, max_target_positions=64)
BOTH_LEARNED = dict(encoder_learned_pos=True, decoder_learned_pos=True)
STOCK = {
    "sinusoidal": {},
    "odd": dict(encoder_embed_dim=33, decoder_embed_dim=33, encoder_attention_heads=3, decoder_attention_heads=3),
    "learned": BOTH_LEARNED,
    "learned encoder": dict(encoder_learned_pos=True),
    "none": dict(no_token_positional_embeddings=True),
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True, layernorm_embedding=True),
    "shared": dict(share_all_embeddings=True, no_scale_embedding=True),
    "layer drop": dict(encoder_layerdrop=0.1, decoder_layerdrop=0.1, adaptive_softmax_cutoff="10,20"),
}


def checkpoint(arch, **options):
    """As fairseq-train writes it, of a small model; the positions are large enough to be felt, unused rows too."""
    args = argparse.Namespace(**{"arch": arch, "_name": arch, **DIMENSIONS, **options})
    torch.manual_seed(1)
    model = build_model(args, task())
    for name, parameter in model.named_parameters():
        if "position" in name:
            torch.nn.init.normal_(parameter)
    return {"args": None, "cfg": {"model": args}, "model": model.state_dict(), "last_optimizer_state": {"steps": 3}}


def model_of(state):
    model = build_model(copy.deepcopy(state["cfg"]["model"]), task())
    model.load_state_dict(state["model"])
    return model.eval()


@STOCK_EVALUATES
@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
@torch.no_grad()
def test_converted_there_and_back_a_model_computes_the_same_bits_also_step_by_step(options):
    state = checkpoint("transformer_tiny", **options)
    before = copy.deepcopy(state)
    plugin = convert_checkpoint(state, "plugin")
    assert same(before["model"], state["model"]) and before["cfg"] == state["cfg"]  # its argument is left alone
    whole = convert_checkpoint(plugin, "fairseq")
    assert same(whole["model"], before["model"]) and whole.keys() | {"last_optimizer_state"} == state.keys()
    assert vars(whole["cfg"]["model"]) == vars(before["cfg"]["model"])

    further = {name: value for name, value in plugin.items() if name != "plain_transformer"}  # of a training from there
    back = convert_checkpoint(further, "fairseq")
    assert back["cfg"]["model"].arch == back["cfg"]["model"]._name == "transformer"
    models = [model_of(each) for each in (state, plugin, back)]
    assert [isinstance(model, RoFormerModel) for model in models] == [False, True, False]

    # sources padded on the left and decoder inputs padded on the right, as fairseq's batches are
    source, target = sentences(5, 9), decoder_input(sentences(5, 11, seed=2))
    for row in range(1, 5):
        source[row, :row], target[row, -row:] = PAD, PAD
    encoded = [model.encoder(source)["encoder_out"][0] for model in models]
    scored = [model(source, None, target)[0] for model in models]
    for states, logits in zip(encoded[1:], scored[1:]):
        assert torch.equal(states[source.ne(PAD).T], encoded[0][source.ne(PAD).T])
        assert torch.equal(logits[target.ne(PAD)], scored[0][target.ne(PAD)])
    models[1].decoder.need_attn = True
    attention, theirs = (model(source, None, target)[1]["attn"][0][target.ne(PAD)] for model in (models[1], models[0]))
    torch.testing.assert_close(attention, theirs)
    models[1].decoder.need_attn = False
    other = model_of(checkpoint("transformer_tiny", **{**options, "no_token_positional_embeddings": True}))
    felt = not torch.equal(other.encoder(source)["encoder_out"][0], encoded[0])
    assert felt == ("no_token_positional_embeddings" not in options)

    encoder_out, target = models[0].encoder(source), decoder_input(sentences(5, 11, seed=2))
    decoders = [(model.decoder, {}) for model in models[:2]]
    for length in range(1, 12):
        one, other = (decoder(target[:, :length], encoder_out, cache)[0] for decoder, cache in decoders)
        assert torch.equal(one, other)


def test_a_checkpoint_of_hydra_converts_there_and_back():
    """Its configuration is a dictionary, and stays one."""
    state = checkpoint("transformer_tiny", **BOTH_LEARNED)
    fields = {name: value for name, value in vars(state["cfg"]["model"]).items() if name != "arch"}
    state = {**state, "cfg": {"model": fields}}
    plugin = convert_checkpoint(state, "plugin")
    back = convert_checkpoint(plugin, "fairseq")
    assert same(back["model"], state["model"]) and back["cfg"] == state["cfg"]
    model = build_model(OmegaConf.create(plugin["cfg"]["model"]), task())
    model.load_state_dict(plugin["model"])
    assert isinstance(model, RoFormerModel)


def test_the_architecture_is_named_by_encoding_and_nearest_size_and_keeps_its_dimensions():
    for arch, options, expected in (
        ("transformer_wmt_en_de_big", {}, "transformer_sinusoidal_big"),
        ("fairseq_transformer_multi30k", {}, "transformer_sinusoidal_multi30k"),
        ("fairseq_transformer_tiny", BOTH_LEARNED, "transformer_learned_tiny"),
        ("transformer_wmt_en_de", dict(no_token_positional_embeddings=True), "transformer_none_base"),
        ("transformer_wmt_en_de", dict(encoder_layers=12), "transformer_sinusoidal_base"),
    ):
        args = argparse.Namespace(arch=arch, **options)
        ARCH_CONFIG_REGISTRY[arch](args)
        tables = {f"{side}.embed_positions.weight": torch.zeros(1026, 8) for side in ("encoder", "decoder")}
        converted = convert_checkpoint({"cfg": {"model": args}, "model": tables}, "plugin")["cfg"]["model"]
        assert converted.arch == expected and not hasattr(converted, "_name")
        ARCH_CONFIG_REGISTRY[expected](converted)  # as when the model is built
        for side in ("encoder", "decoder"):
            for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers"):
                assert getattr(converted, f"{side}_{name}") == getattr(args, f"{side}_{name}")
        assert converted.dropout == args.dropout


def test_the_checkpoint_of_an_older_version_converts_and_keeps_its_extra_numbers(tmp_path):
    """It has its configuration in `args`, misses newer options, and stored a number for the sinusoids."""
    state = checkpoint("transformer_tiny")
    old = argparse.Namespace(**vars(state["cfg"]["model"]), task="translation", data=str(tmp_path))
    for name in ("_name", "no_token_positional_embeddings", "decoder_learned_pos", "merge_src_tgt_embed"):
        vars(old).pop(name, None)
    number = {f"{side}.embed_positions._float_tensor": torch.ones(1) for side in ("encoder", "decoder")}
    history = [{"num_updates": 1, "optimizer_name": "", "lr_scheduler_state": {}}]
    old_state = {"args": old, "model": {**state["model"], **number}, "optimizer_history": history}
    old_state["extra_state"] = {"train_iterator": {"epoch": 1}}
    converted = convert_checkpoint(old_state, "plugin")
    save_checkpoint(converted, tmp_path / "old.pt")
    host = argparse.Namespace(build_model=lambda cfg: build_model(cfg, task()))
    (model,), _, _ = load_model_ensemble_and_task([str(tmp_path / "old.pt")], task=host)
    assert isinstance(model, RoFormerModel) and model.encoder.version.item() == 3
    back = convert_checkpoint(converted, "fairseq")
    assert same(back["model"], old_state["model"]) and back["args"].arch == "transformer_tiny"


@STOCK_EVALUATES  # the official one has parameters for its fast path, which end here
def test_the_optimizers_state_is_kept_only_where_the_parameters_are_the_same():
    state = checkpoint("transformer_tiny")
    converted = convert_checkpoint(state, "plugin")
    assert converted["last_optimizer_state"] == {"steps": 3}
    names = [[name for name, _ in model_of(each).named_parameters()] for each in (state, converted)]
    assert names[0] == names[1]  # by whose order fairseq keeps it
    assert "last_optimizer_state" not in convert_checkpoint(checkpoint("transformer_tiny", **BOTH_LEARNED), "plugin")
    state["model"]["encoder.layers.0.self_attn.in_proj_weight"] = torch.zeros(96, 32)
    assert "last_optimizer_state" not in convert_checkpoint(state, "plugin")


def test_fairseqs_own_model_is_of_fairseqs_own_task():
    state, options = checkpoint("transformer_sinusoidal_tiny"), dict(_name="fast_translation", source_lang="en")
    for of_the_task in (options, argparse.Namespace(**options)):
        state["cfg"]["task"] = of_the_task
        converted = convert_checkpoint(state, "fairseq")["cfg"]["task"]
        found = converted if isinstance(of_the_task, dict) else vars(converted)
        assert (found["_name"], found["source_lang"]) == ("translation", "en")


def test_what_the_other_side_lacks_is_refused():
    for to, reason, arch, options in (
        ("plugin", "--cross-self-attention", "transformer_tiny", dict(cross_self_attention=True)),
        ("plugin", "--base-layers", "transformer_tiny", dict(base_layers=1)),
        ("plugin", "transformer_align", "transformer_tiny", dict(arch="transformer_align")),
        ("plugin", "roformer_tiny", "transformer_tiny", dict(arch="roformer_tiny")),
        ("plugin", r"encoder\.embed_positions\.weight", "transformer_tiny", BOTH_LEARNED),
        ("fairseq", "encoder's positions are rope", "roformer_tiny", {}),
        ("fairseq", "decoder's positions are alibi", "transformer_learned_tiny", dict(decoder_position="alibi")),
        *(
            ("fairseq", "is not in fairseq's models", "transformer_sinusoidal_tiny", {name: value})
            for name, value in dict(swish=True, start_with_bos=True, output_bias=True, layer_norm_eps=1e-12).items()
        ),
        ("fairseq", "decoder alone", "transformer_sinusoidal_tiny", dict(decoder_position="none")),
    ):
        state = checkpoint(arch, **(options if to == "fairseq" else {}))
        vars(state["cfg"]["model"]).update(options)
        with pytest.raises(ValueError, match=reason):
            convert_checkpoint(state, to)
    state = checkpoint("transformer_tiny", **BOTH_LEARNED)
    with pytest.raises(CheckpointError, match="--store-ema"):
        convert_checkpoint({**state, "extra_state": {"ema": {}}}, "plugin")
