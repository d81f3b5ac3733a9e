"""Linear attention, whose cost is linear in the sentence's length, with RoPE (RoFormer section 3.3, eq. 11; arXiv eq.
19) or, as the paper's control, with learned positions.

Feature maps of Katharopoulos et al. 2020 (arXiv 2006.16236) and Choromanski et al. 2021 (Performer, arXiv 2009.14794).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .absolute import LearnedEncoding
from .base import PositionEncoding, SideConfig, option
from .rope import RotaryEncoding, RotaryOptions

SMALLEST_FEATURE = 1e-6  # added to random features, the value of Performer's authors


@dataclass(frozen=True)
class FeatureOptions:
    feature_map: str = option(
        "elu",
        "function that makes q and k positive: elu(x) + 1 (elu), or Performer's random features (favor)",
        choices=("elu", "favor"),
    )
    features: int = option(0, "random features per head for favor (even; 0: head dimension times its logarithm)")


@dataclass(frozen=True)
class LinearOptions(FeatureOptions, RotaryOptions):
    """Those of the feature map and of the rotation."""


class RandomFeatures(nn.Module):
    """FAVOR+ (Choromanski et al. 2021, section 2.3): ``exp(w . x - |x|^2 / 2)`` for random rows ``w``, drawn once.

    The rows ``(M, D)`` are orthogonal in blocks of D with the lengths of Gaussian vectors. They are not trained, but
    saved with the model. Inputs are scaled by ``D^(-1/4)``, so the products approach ``exp(q . k / sqrt(D))``. The
    features of a query are scaled to a maximum of 1, which cancels except for the small number that is then added.

    The authors' code differs in three points: its maximum is that of ``w . x`` alone; it also scales keys, by a maximum
    over the whole sentence, which in a decoder would look ahead; and it can draw the rows anew during training.
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
            exponents = exponents - exponents.amax(-1, keepdim=True)
        return (exponents.exp() + SMALLEST_FEATURE) * len(self.rows) ** -0.5


def _random_rotation(dim: int) -> Tensor:
    """An orthogonal matrix, drawn uniformly: the signs of R's diagonal undo the choice of signs that QR makes in Q."""
    q, r = torch.linalg.qr(torch.randn(dim, dim))
    return (q * r.diagonal().sign()).t()


class PositiveUnits(nn.Module):
    """``elu(x) + 1`` (Katharopoulos et al. 2020, eq. 7): positive, and without parameters."""

    def forward(self, x: Tensor, is_query: bool) -> Tensor:
        return F.elu(x) + 1


class FeatureMapEncoding(PositionEncoding):
    """The feature map of attention without a softmax: the part that its encodings have in common."""

    Options: ClassVar[Any] = FeatureOptions
    prefix = "linear"
    attention = "linear"

    def __init__(self, config: SideConfig, options: FeatureOptions) -> None:
        if options.features and options.feature_map != "favor":
            raise ValueError("--linear-features needs --linear-feature-map favor")
        if options.features < 0 or options.features % 2:
            raise ValueError(f"--linear-features must be even and positive, not {options.features}")
        super().__init__(config, options)

    def width(self) -> int:
        """Features per head."""
        dim = self.config.head_dim
        if self.options.feature_map == "elu":
            return dim
        return self.options.features or max(2, 2 * round(dim * math.log(dim) / 2))

    def build_layer(self, attention: nn.Module) -> nn.Module:
        """The feature map; each layer draws its own random features."""
        return (
            PositiveUnits() if self.options.feature_map == "elu" else RandomFeatures(self.width(), self.config.head_dim)
        )


class LinearRotaryEncoding(FeatureMapEncoding, RotaryEncoding):
    """Rotates the features of q and k, after the feature map (eq. 11), in attention without a softmax."""

    Options = LinearOptions
    family = "roformer_linear"

    def __init__(self, config: SideConfig, options: LinearOptions) -> None:
        super().__init__(config, options)
        if options.scaling == "yarn":
            raise ValueError(
                "--linear-scaling yarn sharpens a softmax, which linear attention lacks: use linear or ntk"
            )


class LinearLearnedEncoding(LearnedEncoding, FeatureMapEncoding):
    """Learned positions, added to the embeddings, before attention without a softmax or rotation.

    It is the Performer that RoFormer compares with (section 4.4, Fig. 3, right). The paper does not say which absolute
    positions that model has; ours are learned.
    """
