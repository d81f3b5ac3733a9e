"""Names and shapes of the tensors of RoFormer and BERT in Hugging Face's library, beside those of this plugin.

Both models have their layer norms behind the residual connections, as fairseq's RoBERTa has. The rows of the
vocabulary are in another order here, because fairseq's special symbols come first.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch import Tensor

from ...positions import SideConfig
from ...positions.rope import RotaryEncoding, RotaryOptions
from ..files import CheckpointError
from .weights import Taken


class Family(NamedTuple):
    """One of the two kinds of model."""

    model_type: str  # in config.json
    model_class: str  # in the library transformers
    position: str  # our encoding
    arch: str
    max_positions: int  # the library's default
    tokenizer: str  # the library's default


ROFORMER = Family("roformer", "RoFormerForMaskedLM", "rope", "roformer_mlm_base", 1536, "RoFormerTokenizer")
BERT = Family("bert", "BertForMaskedLM", "learned", "transformer_learned_mlm_base", 512, "BertTokenizer")
FAMILIES = {family.model_type: family for family in (ROFORMER, BERT)}

OURS = "encoder.sentence_encoder"
LAYER = {
    "attention.self.query": ("self_attn.q_proj", "CC"),
    "attention.self.key": ("self_attn.k_proj", "CC"),
    "attention.self.value": ("self_attn.v_proj", "CC"),
    "attention.output.dense": ("self_attn.out_proj", "CC"),
    "attention.output.LayerNorm": ("self_attn_layer_norm", "C"),
    "intermediate.dense": ("fc1", "FC"),
    "output.dense": ("fc2", "CF"),
    "output.LayerNorm": ("final_layer_norm", "C"),
}
"""A module of a layer, to its name here and the shape of its weight: C channels, F inner ones."""

HEAD = {
    "cls.predictions.transform.dense": ("encoder.lm_head.dense", "CC"),
    "cls.predictions.transform.LayerNorm": ("encoder.lm_head.layer_norm", "C"),
}
WORDS = "embeddings.word_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
TABLE = "encoder.embed_positions.weight"
HEAD_WORDS = "cls.predictions.decoder.weight"
HEAD_BIAS, HEAD_BIAS_COPY = "cls.predictions.bias", "cls.predictions.decoder.bias"
DROPPED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids", TABLE)
DROPPED_HEAD = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
TABLE_TOLERANCE = 1e-3  # of sines in fp16; in bfloat16 they are rounded more


def pairs(cfg: Any, family: Family) -> Iterator[Tuple[str, str, Tuple[int, ...]]]:
    """All tensors of a model with the options ``cfg`` that only change their names: there, here, and the shape."""
    sizes = {"C": cfg.encoder_embed_dim, "F": cfg.encoder_ffn_embed_dim}

    def module(theirs: str, ours: str, letters: str) -> Iterator[Tuple[str, str, Tuple[int, ...]]]:
        shape = tuple(sizes[letter] for letter in letters)
        yield f"{theirs}.weight", f"{ours}.weight", shape
        yield f"{theirs}.bias", f"{ours}.bias", shape[:1]

    prefix = family.model_type
    yield from module(f"{prefix}.embeddings.LayerNorm", f"{OURS}.layernorm_embedding", "C")
    for i in range(cfg.encoder_layers):
        for theirs, (ours, letters) in LAYER.items():
            yield from module(f"{prefix}.encoder.layer.{i}.{theirs}", f"{OURS}.layers.{i}.{ours}", letters)
    for theirs, (ours, letters) in HEAD.items():
        yield from module(theirs, ours, letters)
    if family.position == "learned":
        shape = (cfg.max_positions, cfg.encoder_embed_dim)
        yield f"{prefix}.embeddings.position_embeddings.weight", f"{OURS}.position.weight", shape


def to_plugin(
    taken: Taken, cfg: Any, family: Family, order: List[int], token_types: int
) -> Tuple[Dict[str, Tensor], Dict[str, Tensor]]:
    """The parameters of a model here, and those tensors that have no place in it.

    Args:
        order: for each row of our vocabulary, its row there.

    Raises:
        CheckpointError: a tensor is missing or has another shape than config.json says, or has no place here.
    """
    prefix, channels = f"{family.model_type}.", cfg.encoder_embed_dim
    table, tied = (len(order), channels), not getattr(cfg, "untie_weights_roberta", False)
    embeddings = taken.take(prefix + WORDS, table)
    model = {ours: taken.take(theirs, shape) for theirs, ours, shape in pairs(cfg, family)}
    model[f"{OURS}.embed_tokens.weight"] = embeddings[order]
    types = taken.take(prefix + TYPES, (token_types, channels))
    model["encoder.token_type"] = types[0].clone()

    bias_names = [name for name in (HEAD_BIAS, HEAD_BIAS_COPY) if taken.has(name)] or [HEAD_BIAS]
    biases = [taken.take(name, table[:1]) for name in bias_names]
    if tied and not torch.equal(biases[0], biases[-1]):
        raise CheckpointError(f"{taken.where}: {HEAD_BIAS} and {HEAD_BIAS_COPY} differ: remove the wrong one")
    output = taken.take(HEAD_WORDS, table) if taken.has(HEAD_WORDS) or not tied else embeddings
    if tied and not torch.equal(output, embeddings):
        raise CheckpointError(
            f"{taken.where}: {HEAD_WORDS} differs from the embeddings: set tie_word_embeddings to false"
        )
    model["encoder.lm_head.bias"] = biases[-1][order]  # untied, transformers 5 computes with the copy alone
    model["encoder.lm_head.weight"] = output[order]

    dropped = [*DROPPED_HEAD, *(prefix + name for name in DROPPED)]
    unused = {name: taken.left.pop(name) for name in dropped if taken.has(name)}
    taken.check_none_left()
    if prefix + TABLE in unused:
        _check_angles(unused[prefix + TABLE], cfg, f"{taken.where}: {prefix}{TABLE}")
    return model, {**unused, prefix + TYPES: types}


def angles(cfg: Any) -> Tensor:
    """The library's table of sines and cosines, which it stores with the model: ``(positions, D)``."""
    side = SideConfig(cfg.encoder_embed_dim, cfg.encoder_attention_heads, cfg.max_positions, -1, causal=False)
    rotation = RotaryEncoding(side, RotaryOptions()).rotation(torch.arange(cfg.max_positions)[None])  # (1, 1, T, D/2)
    rotation = rotation.flatten(0, 2)
    return torch.cat([rotation.imag, rotation.real], dim=1).float()


def _check_angles(table: Tensor, cfg: Any, name: str) -> None:
    expected, tolerance = angles(cfg), max(TABLE_TOLERANCE, torch.finfo(table.dtype).eps)
    if table.shape != expected.shape or not torch.allclose(table.float(), expected, rtol=0, atol=tolerance):
        raise CheckpointError(f"{name} has other angles than RoFormer's: they have no place here")


def to_hugging_face(
    model: Dict[str, Tensor], cfg: Any, family: Family, order: List[int], unused: Dict[str, Tensor]
) -> Dict[str, Tensor]:
    """The tensors of the library's model; the reverse of :func:`to_plugin`.

    Args:
        order: for each row of our vocabulary, its row there.
        unused: what :func:`to_plugin` returned besides.

    Raises:
        CheckpointError: a parameter is missing, has another shape than the options say, or has no place there.
    """
    taken = Taken(model, "the checkpoint", "its options and its parameters do not fit: use what fairseq-train wrote")
    prefix, shape = f"{family.model_type}.", (cfg.encoder_embed_dim,)
    table = (len(order), *shape)
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    tensors = {theirs: taken.take(ours, size).clone() for theirs, ours, size in pairs(cfg, family)}
    tensors[prefix + WORDS] = taken.take(f"{OURS}.embed_tokens.weight", table)[back]
    tensors[HEAD_BIAS] = taken.take("encoder.lm_head.bias", table[:1])[back]
    output = taken.take("encoder.lm_head.weight", table)
    if cfg.untie_weights_roberta:
        tensors[HEAD_WORDS] = output[back]
        tensors[HEAD_BIAS_COPY] = tensors[HEAD_BIAS]
    token_type = taken.take("encoder.token_type", shape) if taken.has("encoder.token_type") else output.new_zeros(shape)
    taken.left.pop(f"{OURS}.version", None)
    taken.check_none_left()
    if family.position == "rope":
        tensors[prefix + TABLE] = angles(cfg)
    others = unused.get(prefix + TYPES, token_type[None])[1:]
    tensors[prefix + TYPES] = torch.cat([token_type[None], others.type_as(token_type)])
    kept = [*DROPPED_HEAD, *(prefix + name for name in DROPPED)]
    return {**{name: unused[name] for name in kept if name in unused}, **tensors}
