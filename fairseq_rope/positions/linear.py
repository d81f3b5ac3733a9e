"""RoPE in linear attention (RoFormer section 3.3, eq. 11; arXiv eq. 19): cost linear in the sentence's length.

Feature maps of Katharopoulos et al. 2020 (arXiv 2006.16236) and Choromanski et al. 2021 (Performer, arXiv 2009.14794).
"""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import PositionalMultiheadAttention
from .base import Stack
from .rope import RotaryEncoding, RotaryOptions

FEATURE_MAPS = ("elu", "favor")
SMALLEST_DENOMINATOR = 1e-6
SMALLEST_FEATURE = 1e-6  # added to random features, as in the TensorFlow code of Performer's authors
MOST_FEATURES = 65536  # more are taken for a mistake
CHUNK = 64
"""Queries that are compared with each other directly in causal attention; earlier keys enter as a sum."""


@dataclass(frozen=True)
class LinearOptions(RotaryOptions):
    feature_map: str = field(
        default="elu",
        metadata={
            "help": "what makes q and k positive: elu(x) + 1 (elu), or Performer's random features (favor)",
            "choices": FEATURE_MAPS,
        },
    )
    features: int = field(
        default=0, metadata={"help": "random features per head of favor (even; 0: head dimension times its logarithm)"}
    )


class RandomFeatures(nn.Module):
    """FAVOR+ (Choromanski et al. 2021, section 2.3): ``exp(w . x - |x|^2 / 2)`` for rows ``w`` that are drawn once.

    The rows ``(M, D)`` are orthogonal in blocks of D with the lengths of Gaussian vectors. They are not trained, but
    saved with the model. Inputs are scaled by ``D^(-1/4)``, so that the products approach ``exp(q . k / sqrt(D))``.
    As in the authors' code queries are brought to a maximum of 1 (it cancels) and a small number is added; keys are
    not, since a maximum over them would look ahead.
    """

    def __init__(self, features: int, head_dim: int) -> None:
        super().__init__()
        blocks = [_random_rotation(head_dim) for _ in range(-(-features // head_dim))]
        lengths = torch.randn(features, head_dim).norm(dim=1, keepdim=True)
        self.rows = nn.Parameter(torch.cat(blocks)[:features] * lengths, requires_grad=False)

    def forward(self, x: Tensor, is_query: bool) -> Tensor:
        x = x * x.size(-1) ** -0.25
        exponents = x @ self.rows.float().t() - x.square().sum(-1, keepdim=True) / 2  # (B, H, T, M)
        if is_query:
            exponents = exponents - exponents.detach().amax(-1, keepdim=True)
        return (exponents.exp() + SMALLEST_FEATURE) * len(self.rows) ** -0.5


def _random_rotation(dim: int) -> Tensor:
    """An orthogonal matrix drawn uniformly: QR fixes the signs of Q, and those of R's diagonal undo that."""
    q, r = torch.linalg.qr(torch.randn(dim, dim))
    return (q * r.diagonal().sign()).t()


class PositiveUnits(nn.Module):
    """``elu(x) + 1`` (Katharopoulos et al. 2020, eq. 7): positive, and without parameters."""

    def forward(self, x: Tensor, is_query: bool) -> Tensor:
        return F.elu(x) + 1


class LinearAttention(PositionalMultiheadAttention):
    """Attention without a softmax: ``out_i = sum_j (R_i phi(q_i)) . (R_j phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j)``.

    The denominator is not rotated (RoFormer eq. 11), so that it cannot vanish; below 1e-6 it is taken as 1e-6. Weights
    never exist: sums over the keys ``(B, H, M, D)`` and ``(B, H, M)`` do, which are all that a step of incremental
    decoding needs to know of the past. Computed in fp32.

    Raises:
        ValueError: attention weights, or dropout on them, are asked for.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.dropout_module.p != 0:
            raise ValueError("linear attention forms no weights that could be dropped: leave --attention-dropout at 0")

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding_mask: Optional[Tensor],
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]],
        attn_mask: Optional[Tensor],
        causal: bool,
        need_weights: bool,
        context: Dict[str, Tensor],
    ) -> Tuple[Tensor, Optional[Tensor]]:
        if need_weights:
            raise ValueError(
                "linear attention forms no weights: ask for need_weights=False, or for another layer's, or train with "
                "an encoding that keeps the softmax, such as rope"
            )
        if attn_mask is not None:
            raise ValueError("linear attention takes no mask of pairs: pass causal=True, or nothing")
        with torch.autocast(q.device.type, enabled=False):
            numerator, denominator = self._sums(
                q.float(), k.float(), v.float(), key_padding_mask, incremental_state, causal, context
            )
            return (numerator / denominator.clamp(min=SMALLEST_DENOMINATOR)).type_as(q), None

    def _sums(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding_mask: Optional[Tensor],
        incremental_state: Any,
        causal: bool,
        context: Dict[str, Tensor],
    ) -> Tuple[Tensor, Tensor]:
        """Numerator ``(B, H, T, D)`` and denominator ``(B, H, T, 1)``."""
        feature_map = cast(nn.Module, self.position)
        phi_q, phi_k = feature_map(q, is_query=True), feature_map(k, is_query=False)  # (B, H, T, M)
        if key_padding_mask is not None:  # neither in the numerator nor in the denominator
            phi_k = phi_k.masked_fill(key_padding_mask[:, None, :, None].bool(), 0)
        rotated_q, rotated_k = self.encoding.rotate(phi_q, phi_k, **context)
        if incremental_state is None and not causal:
            return rotated_q @ (rotated_k.transpose(-2, -1) @ v), phi_q @ phi_k.sum(dim=2)[..., None]
        numerator = causal_product(rotated_q, rotated_k, v)
        denominator = (phi_q * phi_k.cumsum(dim=2)).sum(-1, keepdim=True)
        if incremental_state is not None:
            past = self._get_input_buffer(incremental_state)
            products, keys = rotated_k.transpose(-2, -1) @ v, phi_k.sum(dim=2)  # (B, H, M, D), (B, H, M)
            if past:
                numerator = numerator + rotated_q @ past["products"]
                denominator = denominator + phi_q @ past["keys"][..., None]
                products, keys = products + past["products"], keys + past["keys"]
            self._set_input_buffer(incremental_state, {"products": products, "keys": keys})
        return numerator, denominator


class LinearRotaryEncoding(RotaryEncoding):
    """Rotates the features of q and k, after the feature map (eq. 11), in attention without a softmax."""

    Options = LinearOptions
    prefix = "linear"
    family = "roformer_linear"
    attention = LinearAttention

    def __init__(self, stack: Stack, options: LinearOptions) -> None:
        if options.feature_map not in FEATURE_MAPS:
            raise ValueError(
                f"--linear-feature-map must be one of {', '.join(FEATURE_MAPS)}, not {options.feature_map!r}"
            )
        if options.features and options.feature_map != "favor":
            raise ValueError("--linear-features needs --linear-feature-map favor")
        if not 0 <= options.features <= MOST_FEATURES or options.features % 2:
            raise ValueError(
                f"--linear-features must be even, positive and at most {MOST_FEATURES}, not {options.features}"
            )
        super().__init__(stack, options)

    def width(self) -> int:
        dim = self.stack.head_dim
        if self.options.feature_map == "elu":
            return dim
        return self.options.features or max(2, 2 * round(dim * math.log(dim) / 2))

    def build_layer(self, attention: nn.Module) -> nn.Module:
        """The feature map; random features are drawn for each layer anew."""
        return (
            PositiveUnits() if self.options.feature_map == "elu" else RandomFeatures(self.width(), self.stack.head_dim)
        )


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """``sum_{j <= i} (q_i . k_j) v_j``: q, k ``(B, H, T, M)``, v ``(B, H, T, D)`` -> ``(B, H, T, D)``.

    In chunks: within one by masked products, of the chunks before it by their sum. ``O(T (CHUNK + M) D)`` operations,
    ``O(T (CHUNK + M D / CHUNK))`` memory.
    """
    length, size = q.size(2), min(CHUNK, q.size(2))
    padding = -length % size
    q, k, v = (F.pad(x, (0, 0, 0, padding)).unflatten(2, (-1, size)) for x in (q, k, v))  # (B, H, chunks, size, .)
    within = (q @ k.transpose(-2, -1)).tril() @ v
    if q.size(2) > 1:
        sums = (k.transpose(-2, -1) @ v)[:, :, :-1].cumsum(dim=2)  # (B, H, chunks - 1, M, D)
        within = within + q @ F.pad(sums, (0, 0, 0, 0, 1, 0))
    return within.flatten(2, 3)[:, :, :length]
