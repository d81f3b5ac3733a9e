"""A model of this project as the specification that CTranslate2's engine runs."""

from typing import Any, Dict, List

from ctranslate2.specs import (
    TransformerDecoderModelSpec,
    TransformerEncoderModelSpec,
    TransformerSpec,
    common_spec,
    transformer_spec,
)

from ..language_model import RoFormerLanguageModel
from ..masked_lm import RoFormerMaskedModel
from ..positions import PositionEncoding
from .parameters import Parameters
from .positions import expression

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "gelu_fast": common_spec.Activation.GELUTanh,  # fairseq's old name of the one above
    "tanh": common_spec.Activation.Tanh,
    "swish": common_spec.Activation.SWISH,
}
UNSUPPORTED = {
    "no_cross_attention": "a decoder there attends to the source",
    "adaptive_softmax_cutoff": "the output layer there is one projection",
    "quant_noise_scalar": "weights there are not rounded as in training",
    "scale_attn": "an attention there has one layer norm",
    "scale_heads": "heads there have no factors",
    "scale_fc": "a feed-forward network there has one layer norm",
    "scale_resids": "residual connections there have no factors",
}
"""Options that change what a model computes, to the reason why CTranslate2's engine cannot compute it."""


def specification(model: Any) -> Any:
    """The engine's specification of ``model``, one of this plugin's, with its parameters in fp32.

    Of a masked model, the engine computes the features: it has no head for masked words.

    Raises:
        ValueError: the engine does not compute what the model does; the message says what, and why.
    """
    if isinstance(model, RoFormerMaskedModel):
        return _masked(model)
    return _causal(model) if isinstance(model, RoFormerLanguageModel) else _transformer(model)


def _transformer(model: Any) -> TransformerSpec:
    _check({"encoder": model.encoder, "decoder": model.decoder})
    parameters = Parameters(model)
    spec = TransformerSpec(_encoder(model.encoder, parameters), _decoder(model.decoder, parameters))
    parameters.check_none_left()
    spec.register_source_vocabulary(_words(model.encoder.dictionary, "encoder"))
    spec.register_target_vocabulary(_words(model.decoder.dictionary, "decoder"))
    config = spec.config
    _name_special_symbols(config, model.decoder.dictionary)
    words = model.decoder.dictionary
    config.decoder_start_token = words.bos_word if model.decoder.start_with_bos else words.eos_word
    config.add_source_eos = True
    # the engine does not read these, but its callers do: tokens, </s> counted
    config.add_attribute("max_source_positions", model.encoder.max_source_positions)
    config.add_attribute("max_target_positions", model.decoder.max_target_positions)
    return spec


def _causal(model: Any) -> TransformerDecoderModelSpec:
    _check({"decoder": model.decoder})
    parameters = Parameters(model)
    spec = TransformerDecoderModelSpec(_decoder(model.decoder, parameters, attends_to_encoder=False))
    parameters.check_none_left()
    spec.register_vocabulary(_words(model.decoder.dictionary, "decoder"))
    _name_special_symbols(spec.config, model.decoder.dictionary)
    spec.config.add_attribute("max_target_positions", model.decoder.max_target_positions)
    return spec


def _masked(model: Any) -> TransformerEncoderModelSpec:
    stack = model.encoder.sentence_encoder
    _check({"encoder": stack})
    parameters = Parameters(stack, "encoder.")
    encoder = _encoder(stack, parameters)
    parameters.check_none_left()
    if model.encoder.token_type is not None:  # the same vector for every word
        encoder.embeddings[0].weight += model.encoder.token_type.detach().float().cpu().numpy()
    spec = TransformerEncoderModelSpec(encoder)
    spec.register_vocabulary(_words(model.encoder.dictionary, "encoder"))
    _name_special_symbols(spec.config, model.encoder.dictionary)
    spec.config.layer_norm_epsilon = model.encoder.lm_head.layer_norm.eps
    spec.config.add_attribute("max_source_positions", model.encoder.max_positions())
    return spec


def _words(dictionary: Any, side: str) -> List[str]:
    symbols = list(dictionary.symbols)
    if len(set(symbols)) < len(symbols):
        raise ValueError(f"the {side}'s dictionary has a word twice: CTranslate2's engine would mistake one for it")
    return symbols


def _name_special_symbols(config: Any, dictionary: Any) -> None:
    config.bos_token, config.eos_token, config.unk_token = dictionary.bos_word, dictionary.eos_word, dictionary.unk_word


def _check(stacks: Dict[str, Any]) -> None:
    if not all(isinstance(getattr(stack, "position", None), PositionEncoding) for stack in stacks.values()):
        raise ValueError("fairseq's own models are exported by CTranslate2's own converter, ct2-fairseq-converter")
    cfg = list(stacks.values())[-1].cfg
    for option, reason in UNSUPPORTED.items():
        if getattr(cfg, option, None):
            flag = f"--{option.replace('_', '-')}"
            raise ValueError(f"{flag} cannot be exported to CTranslate2: {reason}; use fairseq")
    if _activation(cfg) not in ACTIVATIONS:
        raise ValueError(
            f"--activation-fn {cfg.activation_fn} cannot be exported: CTranslate2's engine has {', '.join(ACTIVATIONS)}"
        )
    for side, stack in stacks.items():
        if not len(stack.layers):
            raise ValueError(f"--{side}-layers 0 cannot be exported: CTranslate2's engine needs at least one layer")
        if stack.position.config.gap > 1:
            raise ValueError("--position-gap cannot be exported: in CTranslate2's engine positions are consecutive")


def _activation(cfg: Any) -> str:
    return "swish" if getattr(cfg, "swish", False) else str(cfg.activation_fn)


def _options(stack: Any, side: str) -> Any:
    cfg = stack.cfg
    return dict(
        num_layers=len(stack.layers),
        num_heads=getattr(cfg, side).attention_heads,
        pre_norm=getattr(cfg, side).normalize_before,
        no_final_norm=stack.layer_norm is None,
        activation=ACTIVATIONS[_activation(cfg)],
        layernorm_embedding=stack.layernorm_embedding is not None,
        **expression(stack.position).options(stack.position),
    )


def _encoder(stack: Any, parameters: Parameters) -> Any:
    spec = transformer_spec.TransformerEncoderSpec(**_options(stack, "encoder"))
    parameters.embedding(spec.embeddings[0], "encoder.embed_tokens")
    _common(spec, stack, "encoder", parameters)
    return spec


def _decoder(stack: Any, parameters: Parameters, attends_to_encoder: bool = True) -> Any:
    projections = {"project_in": stack.project_in_dim, "project_out": stack.project_out_dim}
    projected = any(module is not None for module in projections.values())
    spec = transformer_spec.TransformerDecoderSpec(
        **_options(stack, "decoder"), project_in_out=projected, with_encoder_attention=attends_to_encoder
    )
    parameters.embedding(spec.embeddings, "decoder.embed_tokens")
    _common(spec, stack, "decoder", parameters)
    for i, layer in enumerate(spec.layer if attends_to_encoder else []):
        name = f"decoder.layers.{i}.encoder_attn"
        parameters.norm(layer.attention.layer_norm, f"{name}_layer_norm")
        parameters.linear(layer.attention.linear[0], f"{name}.q_proj")
        parameters.linear(layer.attention.linear[1], f"{name}.k_proj", f"{name}.v_proj")
        parameters.linear(layer.attention.linear[2], f"{name}.out_proj")
    for name, module in projections.items():
        if module is not None:
            parameters.linear(getattr(spec, name), f"decoder.{name}_dim")
        elif projected:
            delattr(spec, name)
    parameters.linear(spec.projection, "decoder.output_projection")
    return spec


def _common(spec: Any, stack: Any, side: str, parameters: Parameters) -> None:
    """Fills the parts that both sides have: positions, norms, self-attention, feed-forward networks."""
    spec.scale_embeddings = float(stack.embed_scale)
    expression(stack.position).fill(spec, stack.position, parameters)
    for norm in ("layer_norm", "layernorm_embedding"):
        if getattr(stack, norm) is not None:
            parameters.norm(getattr(spec, norm), f"{side}.{norm}")
    for i, layer in enumerate(spec.layer):
        name = f"{side}.layers.{i}"
        projections = [f"{name}.self_attn.{kind}_proj" for kind in "qkv"]
        parameters.norm(layer.self_attention.layer_norm, f"{name}.self_attn_layer_norm")
        parameters.linear(layer.self_attention.linear[0], *projections)
        parameters.linear(layer.self_attention.linear[1], f"{name}.self_attn.out_proj")
        parameters.norm(layer.ffn.layer_norm, f"{name}.final_layer_norm")
        parameters.linear(layer.ffn.linear_0, f"{name}.fc1")
        parameters.linear(layer.ffn.linear_1, f"{name}.fc2")
