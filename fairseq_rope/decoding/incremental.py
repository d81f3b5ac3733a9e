"""A decoder that goes on by one token at a time, for the beams of several sentences."""

from typing import Dict, List, Optional

import torch
from torch import Tensor

from ..attention import IncrementalState
from ..attention.cache import tails
from ..stacks import PositionalTransformerDecoder


class IncrementalDecoder:
    """The decoder's own modules, step by step: fairseq's operations in fairseq's order.

    The beams of a sentence are adjacent rows. The first step may have one row for each sentence.

    Args:
        decoder: its dropout is not active.
        encoder_out: the encoder's output for B sentences.
        weight: ``(V, C)``, of the output projection.
    """

    def __init__(
        self, decoder: PositionalTransformerDecoder, encoder_out: Dict[str, List[Tensor]], weight: Tensor
    ) -> None:
        self.decoder, self.encoder_out, self.weight = decoder, encoder_out, weight
        self.state: IncrementalState = {}

    def features(self, tokens: Tensor) -> Tensor:
        """The decoder's output behind the newest of ``tokens`` ``(rows, T)``: ``(rows, C)``."""
        x, _ = self.decoder.extract_features_scriptable(tokens, self.encoder_out, self.state, has_padding=False)
        return x[:, -1]

    def logits(self, tokens: Tensor, buffer: Tensor) -> Tensor:
        """The logits of the next token, ``(rows, V)``; mostly in ``buffer``, which has at least as many rows."""
        features = self.features(tokens).type_as(buffer)  # an output of another width is in autocast's type
        return torch.mm(features, self.weight.t(), out=buffer[: len(tokens)])

    def reorder(self, order: Tensor, tokens: Optional[Tensor] = None) -> None:
        """Row ``i`` continues the former row ``order[i]``; ``order`` is ``(rows,)``, int64.

        ``tokens`` ``(rows, S)`` are those of the former rows, if each continues one of its own sentence.
        """
        moved = None if tokens is None else tails(tokens, order)
        for layer in self.decoder.layers:
            layer.self_attn.reorder_incremental_state(self.state, order, moved)

    def keep(self, kept: Tensor) -> None:
        """Drops finished sentences; ``kept`` ``(sentences,)`` has the former numbers of the others, int64."""
        self.keep_lengths(kept)
        for layer in self.decoder.layers:  # the beams of a sentence share its keys and values of the encoder
            layer.encoder_attn.reorder_incremental_state(self.state, kept)

    def keep_lengths(self, kept: Tensor) -> None:
        """The part of :meth:`keep` for the encoder's output: all else of it is in the attention's cache."""
        self.encoder_out = {**self.encoder_out, "src_lengths": [x[kept] for x in self.encoder_out["src_lengths"]]}
