"""RoPE: rotary position embedding (Su et al., RoFormer, Neurocomputing 2024, eqs. 6-8 and 26; arXiv 2104.09864)."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from .base import PositionEncoding, SideConfig, TokenPositions, option

LAYOUTS = ("interleaved", "half")
WITH_ORIGINAL_LENGTH = ("dynamic", "yarn")
FEWEST_TURNS, MOST_TURNS = 1, 32
"""YaRN's alpha and beta for LLaMA: rotations of a pair of channels within the original length."""


@dataclass(frozen=True)
class RotaryOptions:
    base: float = option(10000.0, "base of the geometric series of rotation frequencies")
    layout: str = option(
        "interleaved",
        "which channels form a pair: neighbours (interleaved, the paper) or channel m and m + dim/2 (half)",
        choices=LAYOUTS,
    )
    dim: int = option(0, "rotate only the first DIM channels of each head (even; 0: the whole head)")
    scaling: str = option(
        "none",
        "for inputs longer than those in training: divide the positions (linear), raise the base (ntk), or "
        "only as far as a source is longer (dynamic), or divide slow frequencies and sharpen the attention (yarn)",
        choices=("none", "linear", "ntk", "dynamic", "yarn"),
    )
    scaling_factor: float = option(1.0, "factor by which the range of positions is stretched (at least 1)")
    original_length: int = option(0, "tokens of the longest inputs in training, for dynamic and yarn")


class RotaryEncoding(PositionEncoding):
    """Rotates each pair ``m`` of channels of q and k by ``position * theta_m``, ``theta_m = base^(-2m/dim)`` (eq. 26).

    Position then enters the product of a query and a key only through their distance (eq. 8). Values are untouched.
    Angles are computed in fp64 and rotations applied in fp32, whatever the precision of q and k.
    """

    Options = RotaryOptions
    prefix = "rope"
    family = "roformer"

    def __init__(self, config: SideConfig, options: RotaryOptions) -> None:
        super().__init__(config, options)
        self.needs_source_lengths = options.scaling == "dynamic"
        width, flag = self.width(), f"--{self.prefix}"
        self.dim = options.dim or width
        if self.dim % 2:
            remedy = f"{flag}-dim {width - 1}" if width > 2 else "fewer heads"
            raise ValueError(
                f"RoPE rotates pairs of channels and needs an even dimension, but it is {self.dim}: "
                f"choose an embedding dimension and number of heads with an even quotient, or {remedy}"
                if not options.dim
                else f"{flag}-dim must be even, not {options.dim}"
            )
        if not 2 <= self.dim <= width:
            raise ValueError(
                f"{flag}-dim must be between 2 and {width}, the channels that it could rotate, not {options.dim}"
            )
        if not 1 < options.base < math.inf:
            raise ValueError(f"{flag}-base must be a number greater than 1, not {options.base}")
        if not 1 <= options.scaling_factor < math.inf:
            raise ValueError(f"{flag}-scaling-factor must be a number of at least 1, not {options.scaling_factor}")
        if options.scaling == "none" and options.scaling_factor != 1:
            raise ValueError(f"{flag}-scaling-factor needs {flag}-scaling linear, ntk, dynamic or yarn")
        if options.scaling not in ("none", "dynamic") and options.scaling_factor == 1:
            raise ValueError(f"{flag}-scaling {options.scaling} needs a {flag}-scaling-factor greater than 1")
        if (options.scaling in WITH_ORIGINAL_LENGTH) != (options.original_length > 0):
            raise ValueError(
                f"{flag}-scaling {options.scaling} needs {flag}-original-length, the tokens of the longest inputs in "
                "training"
                if options.scaling in WITH_ORIGINAL_LENGTH
                else f"{flag}-original-length is for {flag}-scaling dynamic or yarn, and positive: leave it out"
            )
        if options.scaling in ("ntk", "dynamic") and self.dim == 2:
            raise ValueError(
                f"{flag}-scaling {options.scaling} needs more than one pair of channels: raise {flag}-dim above 2"
            )

    def width(self) -> int:
        """Channels per head that the rotation sees."""
        return self.config.head_dim

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        lengths = query.source_lengths
        if self.needs_source_lengths and lengths is None:
            raise ValueError(
                f"--{self.prefix}-scaling dynamic follows the length of the source, which a causal language model "
                "lacks: use ntk"
            )
        return {"rotation": self.rotation(query.positions, lengths)}

    def frequency_base(self, source_lengths: Optional[Tensor] = None) -> Any:
        """Base of the series of frequencies; ``ntk`` and ``dynamic`` make the longest wavelength longer, the shortest
        stays.

        With ``ntk`` it is a number. With ``dynamic`` it is ``(B, 1, 1, 1)``, one for each source: if that has S tokens,
        more than the original length L, the longest wavelength is ``factor * S / L - (factor - 1)`` times as long. The
        output's length is not known, and keys that are cached keep their rotation.
        """
        base, factor = self.options.base, self.options.scaling_factor
        if self.options.scaling not in ("ntk", "dynamic"):
            return base
        stretch: Any = factor
        if source_lengths is not None:
            beyond = source_lengths.double()[:, :, None, None] / self.options.original_length - 1
            stretch = (factor * beyond + 1).clamp(min=1)
        return base * stretch ** (self.dim / (self.dim - 2))

    def rotation(self, positions: Tensor, source_lengths: Optional[Tensor] = None) -> Tensor:
        """``exp(i * position * theta_m)`` as complex64: positions ``(B, T)`` -> ``(B, 1, T, dim/2)``.

        ``source_lengths`` ``(B, 1)`` are for ``dynamic`` alone.
        """
        base, angles = self.frequency_base(source_lengths), positions.double()
        if self.options.scaling == "linear":  # Chen et al. 2023, position interpolation
            angles = angles / self.options.scaling_factor
        exponents = torch.arange(0, self.dim, 2, dtype=torch.double, device=positions.device) / -self.dim
        frequencies = base**exponents
        if self.options.scaling == "yarn":
            frequencies = self._by_parts(frequencies)
        angles = angles[:, None, :, None] * frequencies  # (B, 1, T, dim/2)
        return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)

    def _by_parts(self, frequencies: Tensor) -> Tensor:
        """YaRN's frequencies (Peng et al., ICLR 2024, arXiv 2309.00071, section 3.2).

        Those that turn more than 32 times within the original length stay, those that turn less than once are divided
        by the factor, with a linear ramp in the number of turns between; in the authors' code, in the channel's index.
        """
        turns = frequencies * self.options.original_length * self.config.gap / (2 * math.pi)
        stays = ((turns - FEWEST_TURNS) / (MOST_TURNS - FEWEST_TURNS)).clamp(0, 1)
        return frequencies * (stays + (1 - stays) / self.options.scaling_factor)

    def logit_scale(self, head_dim: int) -> float:
        """With ``yarn``, q and k are each ``0.1 ln s + 1`` times as large (the paper's eq. 22: a temperature)."""
        temperature = 0.1 * math.log(self.options.scaling_factor) + 1 if self.options.scaling == "yarn" else 1.0
        return super().logit_scale(head_dim) * temperature**2

    def transform(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        rotation = context["rotation"]
        return self._rotate_channels(q, rotation), self._rotate_channels(k, rotation)

    def _rotate_channels(self, x: Tensor, rotation: Tensor) -> Tensor:
        if self.dim < x.size(-1):
            rotated, rest = x[..., : self.dim], x[..., self.dim :]
            # a view of pairs needs even strides, which an odd head dimension has not
            return torch.cat([self._rotate_channels(rotated.contiguous(), rotation), rest], dim=-1)
        is_interleaved = self.options.layout == "interleaved"
        if not torch.is_grad_enabled():  # autograd takes longer than the rotation of one step
            return _rotated(x, rotation, is_interleaved)
        return _Rotation.apply(x, rotation, is_interleaved)


class _Rotation(torch.autograd.Function):
    """Multiplies pairs of channels of ``x`` ``(B, H, T, dim)`` by ``rotation``; backwards, by its conjugate.

    The result is in fp32: on a CPU the attention goes on in fp32, which spares the way to half precision and back. The
    backward pass is written out because autograd would take three passes instead of one.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rotation: Tensor, interleaved: bool) -> Tensor:
        ctx.save_for_backward(rotation)
        ctx.interleaved, ctx.dtype = interleaved, x.dtype
        return _rotated(x, rotation, interleaved)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None]:
        (rotation,) = ctx.saved_tensors
        return _Rotation.apply(grad, rotation.conj().resolve_conj(), ctx.interleaved).to(ctx.dtype), None, None


def _rotated(x: Tensor, rotation: Tensor, interleaved: bool) -> Tensor:
    return (_rotate_neighbours if interleaved else _rotate_halves)(x, rotation)


def _rotate_neighbours(x: Tensor, rotation: Tensor) -> Tensor:
    if torch.compiler.is_compiling() or x.stride(-1) != 1 or any(n % 2 for n in (*x.stride()[:-1], x.storage_offset())):
        x = x.contiguous()
    precise = x.float()
    pairs = torch.view_as_complex(precise.unflatten(-1, (-1, 2)))  # (B, H, T, D) -> (B, H, T, D/2)
    pairs = pairs * rotation if precise is x else pairs.mul_(rotation)
    return torch.view_as_real(pairs).flatten(-2)


def _rotate_halves(x: Tensor, rotation: Tensor) -> Tensor:
    cos, sin, precise = rotation.real, rotation.imag.contiguous(), x.float()
    real, imaginary = precise.chunk(2, dim=-1)
    out = precise * torch.cat([cos, cos], dim=-1)
    out_real, out_imaginary = out.chunk(2, dim=-1)  # not written with out=, which is wrong in a compiled program
    out_real.addcmul_(imaginary, sin, value=-1)
    out_imaginary.addcmul_(real, sin)
    return out


def layout_permutation(head_dim: int, dim: int, layout: str) -> Tensor:
    """For each channel of ``layout``, its index in the other layout: ``(head_dim,)``, within one head.

    Args:
        head_dim: channels per head.
        dim: rotated channels, the first ones of the head.
        layout: the layout wanted, ``interleaved`` or ``half``.

    If the output rows of a projection are put in this order, it computes the same logits under ``layout`` as it did
    under the other one: q and k are permuted alike, and the order of the terms changes a dot product only by rounding.

    Raises:
        ValueError: there is no such layout.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"the layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    channels = torch.arange(dim)
    pairs = channels.view(-1, 2).t() if layout == "half" else channels.view(2, -1).t()
    return torch.cat([pairs.flatten(), torch.arange(dim, head_dim)])


def convert_layout(state_dict: Dict[str, Any], num_heads: int, dim: int, layout: str, side: str) -> Dict[str, Any]:
    """Converts the self-attention of one side (``encoder`` or ``decoder``) of a model to the other layout; lossless.

    Args:
        state_dict: a model's parameters by name; not changed.
        num_heads: heads of that side.
        dim: rotated channels per head.
        layout: the layout wanted; the parameters must be in the other one.
        side: the first part of the names.

    Returns:
        A copy of ``state_dict`` with the rows of ``q_proj`` and ``k_proj`` (weight and bias) permuted in each head.
    """
    converted = dict(state_dict)
    for name, value in state_dict.items():
        parts = name.split(".")
        if parts[0] == side and parts[-3:-1] in (["self_attn", "q_proj"], ["self_attn", "k_proj"]):
            order = layout_permutation(value.size(0) // num_heads, dim, layout)
            converted[name] = value.unflatten(0, (num_heads, -1))[:, order].flatten(0, 1)
    return converted
