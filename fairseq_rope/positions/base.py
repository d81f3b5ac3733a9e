"""The contract between the attention and a position encoding.

An encoding is one small file in this folder: it knows one paper and nothing about fairseq. One instance serves a
whole stack (the encoder or the decoder): the stack registers it, calls :meth:`PositionEncoding.prepare` once per
forward pass, and hands the result to every layer's self-attention. :meth:`PositionEncoding.build_layer` makes the
parameters that each layer has for itself; the layer registers them as ``self_attn.position``, and the hooks receive
them as ``layer``. Cross-attention has no position term.

Shapes, in all of these files::

    B  sentences              T  new (query) positions       H  heads
    C  embed_dim              S  all (key) positions         D  head_dim = C / H
    i  position of a query    j  position of a key           R  relative positions, or rows of a table

    positions           (B, T) or (1, T)   int64, 0-based, see :class:`TokenPositions`
    q, k, v             (B, H, T, D)       per head, after the projection

CONTRIBUTING.md has the way to add an encoding. One that is two others at once inherits from both, the first of which
calls ``super()`` in each hook that both have.
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class SideConfig:
    """What an encoding may know about the encoder or decoder that it serves."""

    embed_dim: int
    num_heads: int
    max_positions: int  # tables have so many rows; neighbours may be several positions apart
    padding_idx: int
    causal: bool  # True in the decoder: a query sees no later key
    special_idx: Optional[int] = -1
    """The special symbol: ``</s>`` in translation, ``<s>`` in causal language models; -1: no token is special.
    None: the first token of each text is, as in masked language models, whose training also replaces ``<s>``."""
    limit_flag: str = ""  # the flag that sets max_positions, if it is not that of translation
    shift: int = 0
    """In training, the largest offset of a sequence (SHAPE, Kiyono et al., EMNLP 2021, arXiv 2109.05644); 0: none."""
    sample: int = 0
    """In training, positions are drawn from those below this (Ruoss et al., ACL 2023, arXiv 2305.16843); 0: none."""
    gap: int = 1
    """The difference of neighbours' positions where they are not drawn."""

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads

    @property
    def side(self) -> str:
        return "decoder" if self.causal else "encoder"

    @property
    def limit(self) -> str:
        return self.limit_flag or f"--max-{'target' if self.causal else 'source'}-positions"


class TokenPositions(NamedTuple):
    """The positions of some tokens.

    If the encoding is shift invariant, all sentences share one row of consecutive positions, and padding counts like
    any token. Otherwise positions count the real tokens of each sentence; on a CPU, sentences without padding before
    them share the row of the longest. In training, both may be changed by ``--position-shift`` and
    ``--position-sample``.
    """

    positions: Tensor
    """``(B or 1, T)``"""

    special: Tensor
    """``(B or 1, T)``, True where the token is the special symbol"""

    below: int = 0
    """0: positions of neighbours differ by ``gap``. Else they are any increasing numbers below this one."""

    source_lengths: Optional[Tensor] = None
    """``(B, 1)``: the tokens of each source, if the encoding asks for them and the model has one."""

    gap: int = 1
    """The difference of neighbours, unless positions are drawn (``below``)."""

    @property
    def bound(self) -> int:
        """Without ``--position-shift``, all positions are below this; it is known without reading them."""
        return self.below or self.positions.size(1) * self.gap

    def last(self) -> "TokenPositions":
        """Only the newest token: ``(B or 1, 1)``."""
        return self._replace(positions=self.positions[:, -1:], special=self.special[:, -1:])

    def first_row(self) -> "TokenPositions":
        """Only those of the first sentence: ``(1, T)``."""
        return self._replace(positions=self.positions[:1], special=self.special[:1])


def looked_up(table: Tensor, index: Tensor) -> Tensor:
    """The rows ``index`` of ``table``, whose gradients add up in fp32.

    A CPU would add those of equal rows in the table's precision, and bfloat16 stops counting at 256.
    """
    if not (torch.is_grad_enabled() and table.requires_grad):
        return F.embedding(index, table)
    return F.embedding(index, table.to(torch.promote_types(table.dtype, torch.float))).type_as(table)


def is_read_at_once(x: Tensor) -> bool:
    """Whether the host can look at numbers: on other devices it would wait, and a compiled graph would end there."""
    return x.is_cpu and not torch.compiler.is_compiling()


@dataclass(frozen=True)
class NoOptions:
    """The options of an encoding that has none."""


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field of an encoding's options, with ``text`` as the help of its flag.

    Args:
        metadata: ``choices`` and, if only one side uses it, ``side``.
    """
    return field(default=default, metadata={"help": text, **metadata})


class PositionEncoding(nn.Module):
    """Adds nothing anywhere: the encoding ``none``, and the base of all others.

    A subclass overrides only the hooks that its paper needs. Between :meth:`prepare` and the other hooks it must keep
    nothing except in the returned tensors, because activation checkpointing runs the layers a second time. It must not
    put derived tables into the ``state_dict``. It computes them in fp32 or better, and casts them last.

    Args:
        config: of the encoder or decoder that this instance serves.
        options: an instance of :attr:`Options`.

    Raises:
        ValueError: an option does not fit the configuration.
    """

    Options: ClassVar[Any] = NoOptions
    """A dataclass of :func:`option`; each becomes the flag ``--<prefix>-<field>``, and a bool, False by default, one
    without a value."""

    prefix: ClassVar[str] = ""
    """The beginning of the names of this encoding's flags."""

    family: ClassVar[str] = ""
    """First part of its architectures' names, not inherited; by default ``transformer_<name in the registry>``."""

    shift_invariant: ClassVar[bool] = True
    """The logits depend only on ``j - i``, so padding on the left needs no correction of the positions."""

    own_initial_values: ClassVar[bool] = False
    """Its parameters begin with the paper's values in masked language models, too, whose tables begin as BERT's do."""

    has_table: ClassVar[bool] = False
    """It has a trained row for each position, and no position beyond them."""

    attention: ClassVar[str] = "softmax"
    """The kind of attention that the encoding needs: ``softmax``, or ``linear`` where features replace the softmax."""

    needs_weights: bool = False
    """The encoding uses :meth:`value_bias`, so the attention must form its weights."""

    hides_keys: bool = False
    """:meth:`logit_bias` hides keys from some queries with -inf."""

    needs_source_lengths: bool = False
    """The encoding depends on the length of the source, also in the decoder."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "rotate"):  # the hook's name in 0.2, which nothing would call
            raise TypeError(f"{cls.__name__}.rotate: rename it to transform")

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__()
        self.config = config
        self.options = options
        for each in fields(self.Options):
            value, choices = getattr(options, each.name), each.metadata.get("choices")
            if choices and value not in choices:
                flag = f"--{self.prefix}-{each.name}".replace("_", "-")
                raise ValueError(f"{flag} must be one of {', '.join(choices)}, not {value!r}")

    def positions_of(self, tokens: Tensor, source_lengths: Optional[Tensor] = None) -> TokenPositions:
        """The positions of ``tokens`` ``(B, T)``, int64, padded with ``padding_idx`` before or behind a sentence.

        In the decoder, ``source_lengths`` ``(B, 1)`` are those of the encoder's input, for encodings that need them.

        In training, they may be drawn at random (:attr:`SideConfig.shift`, :attr:`SideConfig.sample`), once for a
        forward pass: every sequence has an offset of its own, and the sequences of a batch share a sample.

        Raises:
            ValueError: a batch has more tokens in a row than there are positions to draw.
        """
        if self.shift_invariant:  # only distances matter: one row of places serves all sentences
            positions = torch.arange(tokens.size(1), device=tokens.device)[None]
        else:
            real = tokens.ne(self.config.padding_idx)
            if is_read_at_once(real) and real[:, :1].all():  # none begins with padding: the longest has all positions
                real = real.any(dim=0, keepdim=True)
            positions = (real.cumsum(dim=1) - 1).clamp_(min=0)
        sample, gap = self.config.sample if self.training else 0, self.config.gap
        if sample:
            positions = self._sampled(tokens)[positions]
        elif gap > 1:
            positions = positions * gap  # most models have no gap: that spares them a step
        elif self.training and self.config.shift and not self.shift_invariant:
            largest = max(0, min(self.config.shift, self.config.max_positions - tokens.size(1)))
            positions = positions + torch.randint(largest + 1, (len(tokens), 1), device=tokens.device)
        if self.needs_source_lengths and not self.config.causal:
            source_lengths = tokens.ne(self.config.padding_idx).sum(dim=1, keepdim=True)
        return TokenPositions(positions, self._special(tokens), sample, source_lengths, gap)

    def _sampled(self, tokens: Tensor) -> Tensor:
        """As many different positions as ``tokens`` ``(B, T)`` have places, in ascending order: ``(T,)``."""
        length, sample = tokens.size(1), self.config.sample
        if length > sample:
            raise ValueError(
                f"--position-sample {sample} has no {length} positions, for the longest sequence of a batch: raise it"
            )
        return torch.rand(sample, device=tokens.device).topk(length).indices.sort().values

    def _special(self, tokens: Tensor) -> Tensor:
        if self.config.special_idx is not None:
            return tokens.eq(self.config.special_idx)
        real = tokens.ne(self.config.padding_idx)
        return real & real.cumsum(dim=1).eq(1)

    def build_layer(self, attention: nn.Module) -> Optional[nn.Module]:
        """The parameters that one layer has for itself, or None.

        Args:
            attention: that layer's attention, with its projections ``q_proj``, ``k_proj`` and ``v_proj``.
        """
        return None

    def embed(self, positions: Tensor) -> Optional[Tensor]:
        """The term added to the scaled token embeddings: ``(B or 1, T, C)``, or None."""
        return None

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        """Computes the tensors that the layers share, once per forward pass; the hooks below receive them by keyword.

        Args:
            query: of the T new tokens; in incremental decoding, only the last one.
            key: of all S tokens so far.

        Raises:
            ValueError: a sentence is longer than the encoding can express.
        """
        return {}

    def transform(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        """Transforms the queries and keys ``(B, H, T, D)`` of the new tokens, before the keys are cached.

        The result may be in fp32; the attention casts it where it computes in another precision.
        """
        return q, k

    def logit_scale(self, head_dim: int) -> float:
        """The factor of the content term ``q k^T``."""
        return head_dim**-0.5

    def logit_bias(self, q: Tensor, k: Tensor, layer: Any, **context: Tensor) -> Optional[Tensor]:
        """The term added to the scaled logits: broadcastable to ``(B, H, T, S)``, or None.

        By default, the tensor ``bias`` of :meth:`prepare`, if it makes one.

        Args:
            q: ``(B, H, T, D)``, the new queries, for biases that depend on content.
            k: ``(B, H, S, D)``, all keys, cached ones included.
            layer: what :meth:`build_layer` made for this layer.
        """
        return context.get("bias")

    def value_bias(self, weights: Tensor, layer: Any, **context: Tensor) -> Optional[Tensor]:
        """The term added to the attention's output ``(B, H, T, D)``, or None.

        Args:
            weights: ``(B, H, T, S)``, after dropout, in fp32 or fp64 also where the model has half precision.
            layer: what :meth:`build_layer` made for this layer.
        """
        return None

    def longest(self, limit: int) -> int:
        """The tokens of the longest sentence, on a side with ``limit`` positions."""
        return limit // self.config.gap if self.has_table else limit

    def check_table(self, rows: int, key: TokenPositions) -> None:
        """Raises ValueError if a table of ``rows`` positions is too short for the positions of ``key``."""
        if key.bound > rows and int(key.positions.max()) >= rows:  # the shape mostly decides, without a sync
            gap = self.config.gap
            apart = f" {gap} positions apart" if gap > 1 else ""
            raise ValueError(
                f"a sentence of {int(key.positions.max()) // gap + 1} tokens{apart} is longer than the "
                f"{self.config.side}'s table of {rows} positions: split it, or train with a larger "
                f"{self.config.limit}, or with an encoding that has no table"
            )
