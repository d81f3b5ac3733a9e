"""What positions contribute, as numbers: RoPE's long-term decay, TUPE's correlations, any encoding's effective bias.

Shapes as in ``positions/base.py``: T queries, here the same as the keys; H heads. ``nan`` stands where a query does not
see a key. :mod:`.pictures` draws the results.
"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..attention import LinearAttention
from ..checkpoints import model_folder
from ..checkpoints.files import CheckpointError
from ..positions import SideConfig, TokenPositions
from ..positions.rope import RotaryEncoding, RotaryOptions
from ..positions.tupe import UntiedAbsoluteEncoding
from .sides import attend, encoding_name, encoding_of, place_of_symbol, stack_of, stacks_of

BATCH = 32  # sentences
SMALLEST_WEIGHT = torch.finfo(torch.float).tiny
"""The attention's weights are fp32: smaller ones count as this, unless they are so small in all sentences."""


def long_term_decay(dim: int = 128, base: float = 10000.0, max_distance: int = 250) -> Tensor:
    """The factor of RoPE's upper bound that depends on the distance (RoFormer eq. 29 and Fig. 2; arXiv eq. 37).

    ``1/(d/2) sum_m |S_m|``, m = 1..d/2, with ``S_m = sum_{n<m} exp(i * distance * theta_n)``: ``(max_distance + 1,)``,
    fp64. The angles are the encoding's own.

    Args:
        dim: d, the rotated channels of a head.
        base: base of the frequencies ``theta_n = base^(-2n/d)``.
        max_distance: the last distance, in tokens; the first is 0.

    Raises:
        ValueError: the dimension is odd, or the base is not above 1.
    """
    config = SideConfig(dim, num_heads=1, max_positions=max_distance + 1, padding_idx=0, causal=False)
    encoding = RotaryEncoding(config, RotaryOptions(base=base, dim=dim))
    terms = encoding.rotation(torch.arange(max_distance + 1)[None])[0, 0]  # (max_distance + 1, d/2)
    return terms.to(torch.complex128).cumsum(-1).abs().mean(-1)


def load_model(folder: Path) -> Any:
    """The model of a run's folder (``checkpoint.pt`` and its dictionaries), in eval mode on the CPU.

    Raises:
        CheckpointError: a file is missing or cannot be used, or the model is not of this package.
    """
    model = model_folder.load_model(folder)
    if not any(encoding_of(model, side) for side in stacks_of(model)):
        raise CheckpointError(f"{folder}: fairseq's own model: its positions cannot be told from the rest")
    return model


@torch.no_grad()
def tupe_correlations(model: Any, side: str = "encoder", length: int = 64) -> Tensor:
    """The learned term that TUPE adds to the logits for each pair of positions (TUPE, Fig. 5): ``(H, T, T)``.

    It is the bias that the encoding hands to the layers, ``(p_i U_Q)(p_j U_K)^T / sqrt(2D)`` and, in TUPE-R, the bias
    of the bucket of ``j - i``. As in the paper's figure, the special symbol is part of the text, and its row and column
    are reset: ``</s>`` at the end of a source, the symbol at the beginning of any other text; the running text of a
    causal language model has none without ``--add-bos-token``. Positions that no text in training had still have their
    initial values.

    Args:
        model: the result of :func:`load_model`.
        side: ``encoder`` or ``decoder``; in the decoder a query sees no later key.
        length: T.

    Raises:
        ValueError: the side has another encoding, or its table is shorter than ``length``.
    """
    encoding = stack_of(model, side).position
    if not isinstance(encoding, UntiedAbsoluteEncoding):
        raise ValueError(
            f"the {side} has the encoding {encoding_name(model, side)}, and this draws only the term that TUPE adds to "
            "the logits: choose a model or a side with tupe_a or tupe_r, or `plot bias`"
        )
    gap = encoding.config.gap
    if not 1 <= length <= encoding.config.max_positions // gap:
        table = f"{encoding.config.max_positions // gap}, the rows of the {side}'s table"
        raise ValueError(f"--length must be between 1 and {table}, not {length}")
    places = torch.arange(length)[None]
    positions = TokenPositions(places * gap, places == place_of_symbol(model, side, length), gap=gap)
    bias = encoding.prepare(positions, positions)["bias"][0]
    seen = torch.ones(length, length, dtype=torch.bool)
    return bias.masked_fill(~(seen.tril() if encoding.config.causal else seen), float("nan"))


@torch.no_grad()
def position_bias(model: Any, side: str = "encoder", length: int = 32, sentences: int = 256, seed: int = 1) -> Tensor:
    """The effect of positions on the logits of each layer and head: ``(layers, H, T, T)``, fp64.

    The function sends random sentences of T words through the model. It draws the words independently, with the
    frequencies in the model's dictionaries. It averages the logarithms of the self-attention's weights over the
    sentences, and subtracts from each row its mean over the keys that the query sees.

    Every word is equally likely at every place. The result is therefore what positions alone add to the logits, up to a
    constant per row. The diagonal is an exception: there a word meets itself, and can stand out even without positions.
    Above the first layer, the inputs already carry information about positions from the layers below (in a decoder, the
    causal mask alone gives some). ``</s>`` does not occur. A key without weight in any sentence counts as not seen.

    Args:
        model: the result of :func:`load_model`.
        side: ``encoder``; or ``decoder``, whose attention to the encoder sees other such sentences.
        length: T.
        sentences: how many to draw; the noise of the words falls with the square root.
        seed: seed of the draw.

    Raises:
        ValueError: the side has linear attention, or the sentences are too long for the model.
    """
    layers = stack_of(model, side).layers
    if any(isinstance(layer.self_attn, LinearAttention) for layer in layers):
        raise ValueError(
            f"the {side} has linear attention, which forms no weights to measure: "
            "choose a model or a side that keeps the softmax"
        )
    generator = torch.Generator().manual_seed(seed)
    dictionaries = [getattr(model, each).dictionary for each in stacks_of(model)]
    source, target = (draw_sentences(dictionaries[i], sentences, length, generator) for i in (0, -1))
    shape = (len(layers), layers[0].self_attn.num_heads, length, length)
    totals, seen = torch.zeros(shape, dtype=torch.double), torch.zeros(shape, dtype=torch.bool)

    def record(i: int, weights: Tensor) -> None:  # (H, B, T, T)
        totals[i] += weights.double().clamp(min=SMALLEST_WEIGHT).log().sum(dim=1)
        seen[i] |= weights.gt(0).any(dim=1)

    with ExitStack() as hooks:
        for i, layer in enumerate(layers):
            for handle in _watch(layer.self_attn, partial(record, i)):
                hooks.callback(handle.remove)
        for src_tokens, prev_output_tokens in zip(source.split(BATCH), target.split(BATCH)):
            attend(model, side, src_tokens, prev_output_tokens)
    bias = (totals / sentences).masked_fill(~seen, float("nan"))
    return bias - bias.nanmean(dim=-1, keepdim=True)


def draw_sentences(dictionary: Dictionary, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Independent words with the frequencies in ``dictionary``, without its special symbols: ``(count, length)``."""
    counts = torch.tensor(dictionary.count, dtype=torch.double)
    counts[: dictionary.nspecial] = 0
    if not counts.any():
        raise ValueError("the dictionary has no counts: take the one that scripts/prepare.sh made")
    return torch.multinomial(counts, count * length, replacement=True, generator=generator).view(count, length)


def _watch(attention: nn.Module, record: Callable[[Tensor], None]) -> Tuple[Any, Any]:
    """Lets ``attention`` form its weights and hands them to ``record``, without an effect on the layer."""

    def ask(module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        return args, {**kwargs, "need_head_weights": True}

    def take(module: nn.Module, args: Tuple[Any, ...], output: Tuple[Tensor, Tensor]) -> None:
        record(output[1])

    return attention.register_forward_pre_hook(ask, with_kwargs=True), attention.register_forward_hook(take)


def by_distance(bias: Tensor) -> Tensor:
    """The mean of ``bias_ij - bias_ii`` over all pairs of one distance ``j - i``: ``(..., T, T)`` -> ``(..., 2T - 1)``.

    The distances go from ``1 - T`` to ``T - 1``. Each row has a constant of its own, so each counts from its diagonal.
    In :func:`position_bias`, a word also matches itself there, which shifts all other distances alike.
    """
    length = bias.size(-1)
    bias = bias - bias.diagonal(dim1=-2, dim2=-1)[..., None]
    diagonals = [bias.diagonal(distance, dim1=-2, dim2=-1).nanmean(-1) for distance in range(1 - length, length)]
    return torch.stack(diagonals, dim=-1)
