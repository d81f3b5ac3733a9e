"""The contract between the attention and a position encoding.

An encoding is one small file in this folder: it knows one paper and nothing about fairseq. One instance serves a
whole stack (the encoder or the decoder): the stack registers it, calls :meth:`PositionEncoding.prepare` once per
forward pass, and hands the result to every layer's self-attention. Cross-attention has no position term.

Shapes, in all of these files::

    B  sentences              T  new (query) positions       H  heads
    C  embed_dim              S  all (key) positions         D  head_dim = C / H

    positions           (B, T) or (1, T)   int64, in tokens, 0-based, counted over real tokens (padding excluded)
    q, k, v             (B, H, T, D)       per head, after the projection

To add an encoding: write one file here with a subclass, add one line to ``POSITIONS`` in ``__init__.py`` and one row
to ``PAPER_CASES`` in ``tests/positions/test_paper_cases.py``. Flags, architectures of every size and the contract
tests follow from the registry.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple

from torch import Tensor, nn


@dataclass(frozen=True)
class Stack:
    """What an encoding may know of the encoder or decoder that it serves."""

    embed_dim: int
    num_heads: int
    num_layers: int
    max_positions: int  # tokens: the longest sentence that the stack accepts
    padding_idx: int
    causal: bool  # True in the decoder: a query sees no later key

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads


@dataclass(frozen=True)
class NoOptions:
    """The options of an encoding that has none."""


class PositionEncoding(nn.Module):
    """Base of all encodings, and the encoding ``none``: it adds nothing anywhere.

    A subclass overrides only the hooks that its paper needs. Nothing may be remembered between :meth:`prepare` and the
    other hooks except in the returned tensors: activation checkpointing runs the layers a second time. Derived tables
    must not enter the ``state_dict``, and are computed in fp32 or better and cast last.

    Args:
        stack: the stack that this instance serves.
        options: an instance of :attr:`Options`.

    Raises:
        ValueError: an option does not fit the stack.
    """

    Options: ClassVar[Any] = NoOptions
    """A dataclass; each field becomes the flag ``--<prefix>-<field>``, with ``metadata={"help", "choices"}``."""

    prefix: ClassVar[str] = ""
    """What the names of this encoding's flags begin with."""

    shift_invariant: ClassVar[bool] = True
    """The logits depend on ``j - i`` only, so that padding on the left needs no correction of the positions."""

    def __init__(self, stack: Stack, options: Any) -> None:
        super().__init__()
        self.stack = stack
        self.options = options

    def embed(self, positions: Tensor) -> Optional[Tensor]:
        """What is added to the scaled token embeddings: ``(B or 1, T, C)``, or None."""
        return None

    def prepare(self, query_positions: Tensor, key_positions: Tensor) -> Dict[str, Tensor]:
        """Computes, once per forward pass, what the layers share; the hooks below receive it as keyword arguments.

        Args:
            query_positions: ``(B or 1, T)``, the new steps; in incremental decoding only the last one.
            key_positions: ``(B or 1, S)``, all steps so far.
        """
        return {}

    def rotate(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        """Transforms the queries and keys ``(B, H, T, D)`` of the new steps, before the keys are cached."""
        return q, k

    def logit_scale(self, head_dim: int) -> float:
        """The factor of the content term ``q k^T``."""
        return head_dim**-0.5

    def logit_bias(self, q: Tensor, k: Tensor, **context: Tensor) -> Optional[Tensor]:
        """What is added to the scaled logits: broadcastable to ``(B, H, T, S)``, or None.

        Args:
            q: ``(B, H, T, D)``, the new queries, for biases that depend on content.
            k: ``(B, H, S, D)``, all keys, cached ones included.
        """
        return None
