"""No flag is ignored: each of fairseq's changes the plugin's model of the same kind, or is refused."""

import argparse
import dataclasses

import pytest
import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.roberta import RobertaModel
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from fairseq.quantization_utils import quantize_model_scalar

from fairseq_rope.positions import POSITIONS

from .helpers import KINDS, LANGUAGE, build, build_with, decoder_input, same, sentences
from .test_hydra import another_value

SMALL = dict(encoder_layers=2, decoder_layers=2, share_all_embeddings=False, share_decoder_input_output_embed=False)
SMALL.update(quant_noise_scalar=0, mha_reg_scale_factor=0, ffn_reg_scale_factor=0)  # as fairseq-train fills them in
VALUES = {
    **dict.fromkeys(["embed_dim", "output_dim", "input_dim"], "64"),
    **dict.fromkeys(["encoder_layers", "decoder_layers"], "3"),
    **dict.fromkeys(["source_positions", "target_positions", "max_positions"], "50"),
    **dict.fromkeys(["attention_heads", "layers_to_keep"], "1"),
    **dict.fromkeys(["softmax_cutoff", "input_cutoff"], "10,20"),
    **dict.fromkeys(["activation_fn"], "gelu_fast"),
}
"""Values of the flags that end so. All others take 4 or 0.5."""

OTHERS = {
    "adaptive_softmax": {"adaptive_softmax_cutoff": "10,20"},
    "tie_adaptive_proj": {"adaptive_softmax_cutoff": "10,20", "tie_adaptive_weights": True},
    "adaptive_input": {"adaptive_input": True},
    "character": {"character_embeddings": True},
    "char_embedder": {"character_embeddings": True},
    "quant_noise_pq": {"quant_noise_pq": 0.5},
    "no_decoder_final_norm": {"decoder_normalize_before": True},
    "base_": {"base_layers": 1},
}
"""Options without which flags that begin so do nothing in fairseq either."""

ELSEWHERE = {
    *("min_params_to_wrap", "export"),  # FSDP, and layer norms of GPUs
    *("load_checkpoint_heads", "ffn_blocks_to_remove"),  # when a checkpoint is loaded
    *("mlm layernorm_embedding", "lm decoder_normalize_before"),  # the architectures have them
}
"""What does not show here, with fairseq's own models either."""


def flags(kind):
    """fairseq's, by the names of the options."""
    parser = argparse.ArgumentParser(add_help=False)
    if kind == "lm":
        gen_parser_from_dataclass(parser, TransformerLanguageModelConfig(), delete_default=True)
    else:
        {"translation": TransformerModel, "mlm": RobertaModel}[kind].add_args(parser)
    return {action.dest: action for action in parser._actions}


def value(flag, option, folder):
    """Another one than the default."""
    if flag.nargs == 0:
        return True
    if option.endswith("embed_path"):
        (folder / "vectors.txt").write_text(f"1 32\nw5 {'0.5 ' * 32}\n")
        return str(folder / "vectors.txt")
    default = "4" if flag.type is int else "0.5"
    text = next((given for end, given in VALUES.items() if option.endswith(end)), default)
    return flag.type(text) if flag.type in (int, float) else text


def observed(kind, **options):
    """What can be seen of a model, one after the other."""
    options = {**SMALL, **options}
    model = build("transformer_sinusoidal_" + ("" if kind == "translation" else f"{kind}_") + "tiny", **options)
    yield str(quantize_model_scalar(model, argparse.Namespace(**options)))
    if kind == "mlm":
        torch.manual_seed(0)
        model.register_classification_head("head", 2)
    yield model.state_dict()
    yield model.max_positions()
    torch.manual_seed(0)
    calls, text = [], sentences(3, 8)
    for layer in (module for module in model.modules() if hasattr(module, "fc1")):
        layer.self_attn.register_forward_hook(lambda *_: calls.append(1))
    net_input = (text, None, decoder_input(text)) if kind == "translation" else (text,)
    output = model.train()(*net_input)[0]
    yield {"output": output.detach()}
    if kind == "mlm":
        torch.manual_seed(0)
        yield {"head": model(*net_input, classification_head_name="head")[0].detach()}
        yield float(model._get_adaptive_head_loss()), float(model._get_adaptive_ffn_loss())
    output.square().sum().backward()
    yield len(calls)


def differ(one, other):
    return not same(one, other) if isinstance(one, dict) else one != other


@pytest.mark.parametrize("kind", KINDS)
def test_every_flag_of_fairseqs_model_changes_ours_or_is_refused(kind, tmp_path):
    assert not any(map(differ, observed(kind), observed(kind)))
    for option, flag in flags(kind).items():
        needed = next((others for begin, others in OTHERS.items() if option.startswith(begin)), {})
        others = {name: needed[name] for name in needed if name != option}
        given = {**others, option: value(flag, option, tmp_path)}
        try:
            is_ignored = not any(map(differ, observed(kind, **others), observed(kind, **given)))
        except ValueError as error:
            assert any(f"--{name.replace('_', '-')}" in str(error) for name in given), error
            continue
        assert not is_ignored or {option, f"{kind} {option}"} & ELSEWHERE, option


def test_an_option_of_an_encoding_that_no_side_has_is_refused():
    for name, encoding in POSITIONS.items():
        for field in dataclasses.fields(encoding.Options):
            option = f"{encoding.prefix}_{field.name}"
            with pytest.raises(ValueError, match=f"--{option}".replace("_", "-")):
                build("transformer_none_tiny", **{option: another_value(field)})


WIDTH_33 = dict(encoder_embed_dim=33, decoder_embed_dim=33, encoder_attention_heads=3, decoder_attention_heads=3)
REFUSED = [
    ("rope_layout must be one of", "rope", dict(rope_layout="halves")),  # as --model-overrides may have it
    ("rope_dim must be even", "rope", dict(rope_dim=3)),
    ("rope_scaling linear needs a __rope_scaling_factor", "rope", dict(rope_scaling="linear")),
    ("rope_scaling_factor needs __rope_scaling", "rope", dict(rope_scaling_factor=2.0)),
    ("rope_scaling_factor must be", "rope", dict(rope_scaling="linear", rope_scaling_factor=0.5)),
    ("rope_original_length", "rope", dict(rope_scaling="yarn", rope_scaling_factor=2.0)),
    ("rope_original_length is for", "rope", dict(rope_original_length=100)),
    ("attention_dropout", "linear", dict(attention_dropout=0.1)),
    ("linear_features", "linear", dict(linear_feature_map="favor", linear_features=7)),
    ("linear_feature_map favor", "linear", dict(linear_features=64)),
    ("rope_base", "linear", dict(rope_base=3.0)),
    ("t5_buckets", "t5", dict(t5_buckets=6)),
    ("t5_max_distance", "t5", dict(t5_max_distance=16)),
    ("tupe_buckets", "tupe_a", dict(tupe_buckets=8)),
    ("shaw_clip", "shaw", dict(shaw_clip=0)),
    ("alibi_split_directions", "alibi", dict(alibi_split_directions=True, encoder_attention_heads=1)),
    ("alibi_split_directions", "none", dict(decoder_position="alibi", alibi_split_directions=True)),
    ("encoder_embed_dim", "xl", WIDTH_33),
    ("encoder_attention_heads", "rope", dict(encoder_attention_heads=5)),
    ("encoder_position", "rotten", {}),
    ("max_target_positions", "learned", dict(max_target_positions=0)),
    ("position_shift", "rope", dict(position_shift=5)),  # only distances matter
    ("position_sample", "none", dict(position_sample=5, position_gap=1)),
    ("position_gap", "none", dict(position_gap=5)),
    ("position_sample", "learned", dict(position_shift=5, position_sample=20)),
    ("position_gap", "rope", dict(position_sample=20)),  # positions that no training draws
    ("max_source_positions 64", "rope", dict(position_sample=65, position_gap=1)),
    ("alignment_layer", "rope", dict(alignment_layer=2)),
    ("decoder_layerdrop", "rope", dict(alignment_heads=1, decoder_layerdrop=0.1)),
    ("no_cross_attention", "rope", dict(alignment_heads=1, no_cross_attention=True)),
    ("only_train", "rope", dict(only_train="encodr")),
]
"""What would be ignored, or give wrong figures: part of the message, the encoder's encoding, options."""


def test_options_that_do_nothing_or_do_not_fit_are_refused_by_name():
    for words, encoding, options in REFUSED:
        with pytest.raises(ValueError, match=f"--{words}".replace("_", "-")):
            build_with(encoding, **{"decoder_position": encoding, **options})
    for kind in LANGUAGE:
        with pytest.raises(ValueError, match="--attention-dropout"):
            build_with("linear", kind, attention_dropout=0.1)
