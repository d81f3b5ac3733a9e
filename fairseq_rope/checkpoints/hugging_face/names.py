"""Names and shapes of the tensors of RoFormer and BERT in Hugging Face's library, beside those of this plugin.

Both models have their layer norms behind the residual connections, as fairseq's RoBERTa has. The rows of the
vocabulary are in another order here, because fairseq's special symbols come first.
"""

from typing import Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch import Tensor

from ...positions import SideConfig
from ...positions.rope import RotaryEncoding, RotaryOptions
from ..files import CheckpointError
from .configuration import Configuration

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
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


class Pair(NamedTuple):
    """A tensor that both sides have alike."""

    theirs: str
    ours: str
    shape: Tuple[int, ...]


def pairs(config: Configuration) -> Iterator[Pair]:
    """All tensors that only change their names."""
    sizes = {"C": config.channels, "F": config.inner_channels}

    def module(theirs: str, ours: str, letters: str) -> Iterator[Pair]:
        shape = tuple(sizes[letter] for letter in letters)
        yield Pair(f"{theirs}.weight", f"{ours}.weight", shape)
        yield Pair(f"{theirs}.bias", f"{ours}.bias", shape[:1])

    prefix = config.model_type
    yield from module(f"{prefix}.embeddings.LayerNorm", f"{OURS}.layernorm_embedding", "C")
    for i in range(config.layers):
        for theirs, (ours, letters) in LAYER.items():
            yield from module(f"{prefix}.encoder.layer.{i}.{theirs}", f"{OURS}.layers.{i}.{ours}", letters)
    for theirs, (ours, letters) in HEAD.items():
        yield from module(theirs, ours, letters)
    if config.kind.position == "learned":
        shape = (config.max_positions, config.channels)
        yield Pair(f"{prefix}.embeddings.position_embeddings.weight", f"{OURS}.position.weight", shape)


class Taken:
    """Tensors by name, each of which is taken once and checked."""

    def __init__(self, tensors: Dict[str, Tensor], where: str, remedy: str) -> None:
        self.left, self.where, self.remedy = dict(tensors), where, remedy

    def take(self, name: str, shape: Tuple[int, ...]) -> Tensor:
        if name not in self.left:
            raise CheckpointError(f"{self.where}: there is no tensor {name}: {self.remedy}")
        value = self.left.pop(name)
        if not isinstance(value, Tensor) or tuple(value.shape) != shape or value.dtype not in FLOATING:
            is_tensor = isinstance(value, Tensor)
            found = f"{str(value.dtype)[6:]} of shape {tuple(value.shape)}" if is_tensor else type(value).__name__
            raise CheckpointError(
                f"{self.where}: {name} is {found}, not floating-point of shape {shape}: {self.remedy}"
            )
        if not value.isfinite().all():
            raise CheckpointError(f"{self.where}: {name} holds NaN or infinity: training had diverged")
        return value

    def has(self, name: str) -> bool:
        return name in self.left


def to_plugin(
    tensors: Dict[str, Tensor], config: Configuration, order: List[int], where: str
) -> Tuple[Dict[str, Tensor], Dict[str, Tensor]]:
    """The parameters of a model here, and those tensors that have no place in it.

    Args:
        tensors: of the folder ``where``.
        config: what its config.json says.
        order: for each row of our vocabulary, its row there.
        where: for messages.

    Raises:
        CheckpointError: a tensor is missing or has another shape than config.json says, or has no place here.
    """
    taken = Taken(tensors, where, f"give the folder of a {config.kind.model_class} with the config.json of its weights")
    prefix, table = f"{config.model_type}.", (config.words, config.channels)
    embeddings = taken.take(prefix + WORDS, table)
    model = {pair.ours: taken.take(pair.theirs, pair.shape) for pair in pairs(config)}
    model[f"{OURS}.embed_tokens.weight"] = embeddings[order]
    types = taken.take(prefix + TYPES, (config.token_types, config.channels))
    model["encoder.token_type"] = types[0].clone()

    bias_names = [name for name in (HEAD_BIAS, HEAD_BIAS_COPY) if taken.has(name)] or [HEAD_BIAS]
    biases = [taken.take(name, (config.words,)) for name in bias_names]
    if not torch.equal(biases[0], biases[-1]):
        raise CheckpointError(f"{where}: {HEAD_BIAS} and {HEAD_BIAS_COPY} differ: remove the wrong one")
    output = taken.take(HEAD_WORDS, table) if taken.has(HEAD_WORDS) or not config.tied else embeddings
    if config.tied and not torch.equal(output, embeddings):
        raise CheckpointError(f"{where}: {HEAD_WORDS} differs from the embeddings: set tie_word_embeddings to false")
    model["encoder.lm_head.bias"] = biases[0][order]
    model["encoder.lm_head.weight"] = output[order]

    unused = {name: taken.left.pop(name) for name in DROPPED_HEAD if taken.has(name)}
    unused.update({prefix + name: taken.left.pop(prefix + name) for name in DROPPED if taken.has(prefix + name)})
    if taken.left:
        raise CheckpointError(
            f"{where}: {sorted(taken.left)[0]!a:.100} has no place in a masked model here: {taken.remedy}"
        )
    if config.kind.position == "rope" and prefix + TABLE in unused:
        _check_angles(unused[prefix + TABLE], config, where)
    return model, {**unused, prefix + TYPES: types}


def angles(config: Configuration) -> Tensor:
    """The library's table of sines and cosines, which it stores with the model: ``(positions, D)``."""
    positions = torch.arange(config.max_positions)[None]
    side = SideConfig(config.channels, config.heads, config.max_positions, padding_idx=-1, causal=False)
    rotation = RotaryEncoding(side, RotaryOptions()).rotation(positions)  # (1, 1, T, D/2), complex
    rotation = rotation.reshape(config.max_positions, -1)
    return torch.cat([rotation.imag, rotation.real], dim=1).float()


def _check_angles(table: Tensor, config: Configuration, where: str) -> None:
    alike = table.shape == (config.max_positions, config.channels // config.heads)  # so the file has as many numbers
    tolerance = max(TABLE_TOLERANCE, torch.finfo(table.dtype).eps) if table.is_floating_point() else TABLE_TOLERANCE
    if not alike or not torch.allclose(table.float(), angles(config), rtol=0, atol=tolerance):
        raise CheckpointError(
            f"{where}: {config.model_type}.{TABLE} has other angles than RoFormer's: they have no place here"
        )


def to_hugging_face(
    model: Dict[str, Tensor], config: Configuration, order: List[int], unused: Dict[str, Tensor]
) -> Dict[str, Tensor]:
    """The tensors of the library's model; the reverse of :func:`to_plugin`.

    Args:
        model: parameters by our names.
        config: what config.json will say.
        order: for each row of our vocabulary, its row there.
        unused: what :func:`to_plugin` returned besides.

    Raises:
        CheckpointError: a parameter is missing, has another shape than the options say, or has no place there.
    """
    taken = Taken(model, "the checkpoint", "its options and its parameters do not fit: use what fairseq-train wrote")
    prefix, table = f"{config.model_type}.", (config.words, config.channels)
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    tensors = {pair.theirs: taken.take(pair.ours, pair.shape).clone() for pair in pairs(config)}
    tensors[prefix + WORDS] = taken.take(f"{OURS}.embed_tokens.weight", table)[back]
    tensors[HEAD_BIAS] = taken.take("encoder.lm_head.bias", (config.words,))[back]
    output = taken.take("encoder.lm_head.weight", table)
    if not config.tied:
        tensors[HEAD_WORDS] = output[back]
        tensors[HEAD_BIAS_COPY] = tensors[HEAD_BIAS]
    shape = (config.channels,)
    token_type = taken.take("encoder.token_type", shape) if taken.has("encoder.token_type") else output.new_zeros(shape)
    taken.left.pop(f"{OURS}.version", None)
    if taken.left:
        raise CheckpointError(f"{sorted(taken.left)[0]} has no place in {config.kind.model_class}")
    if config.kind.position == "rope":
        tensors[prefix + TABLE] = angles(config)
    types = unused.get(prefix + TYPES)
    others = token_type.new_empty(0, config.channels) if types is None else types[1:].type_as(token_type)
    tensors[prefix + TYPES] = torch.cat([token_type[None], others])
    kept = [*DROPPED_HEAD, *(prefix + name for name in DROPPED)]
    return {**{name: unused[name] for name in kept if name in unused}, **tensors}
