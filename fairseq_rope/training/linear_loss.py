"""Label-smoothed cross entropy behind a projection, whose logits never exist all at once."""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..products import add_weight_gradient, is_emulated, product, weight_gradient

CHUNK = {"cpu": 2**26, "cuda": 2**28}
"""Bytes of logits in memory at once, by type of device. Products of fewer rows are slower."""

BLOCK = 2**21
"""Bytes of logits that a CPU takes through the softmax at once: they stay in its cache."""

FP16_SCALE = 16.0
"""Factor of the gradients between forward and backward pass in fp16, where the share ``e`` of the smoothing would be a
subnormal number. The loss scale prevents that, but is known only in the backward pass.
"""


def linear_label_smoothed_nll_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    ignore_index: Optional[int] = None,
    bias: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """fairseq's ``label_smoothed_nll_loss`` of logits ``features @ weight^T + bias``, which never exist all at once.

    With ``e = epsilon / (V - 1)`` and log-probabilities ``lp``, a token's loss is
    ``-(1 - epsilon - e) lp[target] - e sum(lp)`` and its gradient with respect to the logits
    ``softmax - e - (1 - epsilon - e) onehot``. A few hundred tokens at a time go through the projection, the loss and
    both gradients, so the backward pass repeats no product. Softmax and sums are in fp32.

    Args:
        features: ``(N, C)``, the decoder's output. Under autocast it is cast to autocast's type.
        weight: ``(V, C)``, the weight of the output projection.
        target: ``(N,)``, int64.
        epsilon: the share of the label smoothing.
        ignore_index: a target with this index has no loss.
        bias: ``(V,)``, that of the output projection, or None.

    Returns:
        Loss and negative log-likelihood, both summed, in fp32; the second has no gradient.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        features = features.to(torch.get_autocast_dtype(device))
    elif is_emulated(features):
        features = features.float()
    if ignore_index is not None and device == "cpu":  # elsewhere this would wait for the number of tokens
        kept = target.ne(ignore_index)
        features, target, ignore_index = features[kept], target[kept], None
    if not torch.is_grad_enabled():  # else PyTorch would compute the gradient of the weight all the same
        features, weight, bias = features.detach(), weight.detach(), None if bias is None else bias.detach()
    with torch.autocast(device, enabled=False):
        loss, nll_loss = _LinearLoss.apply(features, weight, target, epsilon, ignore_index, bias)
    return loss, nll_loss


def _rows_of_a_chunk(features: Tensor, types: int) -> int:
    """How many of the N tokens go through the loss at once: chunks of about equal size, at most ``CHUNK`` bytes."""
    tokens, limit = features.size(0), CHUNK.get(features.device.type, CHUNK["cuda"])
    chunks = max(1, -(-tokens * types * features.element_size() // limit))
    return max(1, -(-tokens // chunks))


def _divisor(features: Tensor) -> Tensor:
    """The power of two by which fp16 ``features`` are divided for the gradient of the weight, which is then finite.

    That gradient is largest if all tokens share a target, and the model is sure that it is another one: then it is
    ``FP16_SCALE`` times the sum of a column.
    """
    largest = FP16_SCALE * features.abs().sum(0, dtype=torch.float).amax()
    return (largest / torch.finfo(torch.half).max).log2().ceil().exp2().clamp(min=1)


def _rows_of_a_block(logits: Tensor) -> int:
    """How many rows of a chunk go through the softmax at once: on a CPU, as many as its cache holds in fp32."""
    return max(1, BLOCK // (4 * logits.size(1))) if logits.device.type == "cpu" else len(logits)


class _Statistics(NamedTuple):
    """What the loss needs of each token's logits, ``(N, 1)`` each: filled in block by block, and added up once."""

    at_target: Tensor
    total: Tensor
    highest: Tensor
    likeliest: Tensor
    """The probability at the highest logit."""

    def softmax_(self, logits: Tensor, labels: Tensor) -> None:
        """Fills in all four; ``logits`` ``(N, V)``, fp32 or fp64, become probabilities in place."""
        torch.gather(logits, -1, labels, out=self.at_target)
        torch.sum(logits, -1, keepdim=True, out=self.total)
        torch.amax(logits, -1, keepdim=True, out=self.highest)
        torch.softmax(logits, -1, out=logits)
        torch.amax(logits, -1, keepdim=True, out=self.likeliest)


class _Smoothing:
    """The weights of a token's loss ``certain * nll + smooth * sum(nll of every type)``, and its targets.

    Args:
        epsilon: the share of the label smoothing.
        types: V.
        ignore_index: a target with this index has no loss, or None.
    """

    def __init__(self, epsilon: float, types: int, ignore_index: Optional[int]) -> None:
        self.types = types
        self.smooth = epsilon / (types - 1)
        self.certain = 1 - epsilon - self.smooth
        self.ignore_index = ignore_index

    def losses(self, of: _Statistics, labels: Tensor) -> Tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood, both summed, of tokens with the targets ``labels``: ``(N, 1)``, int64."""
        # log sum exp(logits): at the maximum, the probability is exp(highest) / sum
        log_sum = of.highest - of.likeliest.log()
        nll = log_sum - of.at_target
        loss = self.certain * nll + self.smooth * (self.types * log_sum - of.total)
        if self.ignore_index is not None:
            ignored = labels.eq(self.ignore_index)
            nll, loss = nll.masked_fill(ignored, 0), loss.masked_fill(ignored, 0)
        return loss.sum(), nll.sum()

    def gradient(self, probabilities: Tensor, labels: Tensor) -> Tensor:
        """The gradient of the loss with respect to the logits, ``(n, V)``; it overwrites ``probabilities``."""
        certain = probabilities.new_full((1, 1), -self.certain).expand_as(labels)
        gradient = probabilities.sub_(self.smooth).scatter_add_(-1, labels, certain)
        if self.ignore_index is not None:
            gradient.masked_fill_(labels.eq(self.ignore_index), 0)
        return gradient


class _Gradients:
    """The gradients of features, weight and bias, filled chunk by chunk; each is None where it is not needed.

    Args:
        features: ``(N, C)``.
        weight: ``(V, C)``; the gradients of several chunks, and that of the bias, are summed in ``precise``.
        matrix: ``weight`` in the dtype of ``features``.
        needed: whether the gradients of ``features``, of ``weight`` and of the bias are needed.
        precise: fp32 or fp64.
    """

    def __init__(
        self, features: Tensor, weight: Tensor, matrix: Tensor, needed: Tuple[bool, bool, bool], precise: torch.dtype
    ) -> None:
        self.matrix = matrix
        self.features = torch.empty_like(features) if needed[0] else None
        self.needs_weight, self.precise = needed[1], precise
        self.weight = torch.zeros_like(matrix) if needed[1] and not len(features) else None
        self.bias = weight.new_zeros(len(weight), dtype=precise) if needed[2] else None
        self.share: Optional[Tensor] = None  # in half precision, the place of a later chunk's share
        self.inputs = features
        """For the gradient of the weight, which has to be multiplied by :attr:`divisor`."""
        self.divisor: Any = 1.0
        if features.dtype == torch.half:
            self.divisor = _divisor(features)
            self.inputs = features / self.divisor

    def add(self, start: int, gradient: Tensor) -> None:
        """Adds a chunk: the gradient ``(n, V)`` of its logits, from row ``start`` of the features on."""
        rows = slice(start, start + len(gradient))
        if self.features is not None:
            self.features[rows] = product(gradient, self.matrix.t())
        if self.needs_weight:
            self._add_weight(gradient, self.inputs[rows])
        if self.bias is not None:
            self.bias.add_(gradient.sum(0, dtype=self.bias.dtype))

    def _add_weight(self, gradient: Tensor, x: Tensor) -> None:
        if self.weight is None:
            self.weight = weight_gradient(gradient, x)
        elif x.dtype == self.precise:
            add_weight_gradient(self.weight, gradient, x)
        else:
            if self.share is None:
                self.share, self.weight = self.weight, self.weight.to(self.precise)
            self.weight.add_(torch.mm(gradient.t(), x, out=self.share))


class _LinearLoss(torch.autograd.Function):
    """Computes the gradients together with the loss, so the logits of a chunk exist only once."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        target: Tensor,
        epsilon: float,
        ignore_index: Optional[int],
        bias: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        (tokens, types), dtype = (features.size(0), weight.size(0)), features.dtype
        precise = torch.promote_types(dtype, torch.float)
        matrix = weight.to(dtype)
        needed = (*ctx.needs_input_grad[:2], bias is not None and bias.requires_grad)
        smoothing = _Smoothing(epsilon, types, ignore_index)
        gradients = _Gradients(features, weight, matrix, needed, precise)
        labels = target[:, None]
        statistics = _Statistics(*features.new_empty(4, tokens, 1, dtype=precise))
        scale = FP16_SCALE if dtype == torch.half else 1.0

        rows = _rows_of_a_chunk(features, types)
        chunk_logits = features.new_empty(rows, types)
        for start in range(0, tokens, rows):
            x = features[start : start + rows]
            logits = product(x, matrix, out=chunk_logits[: len(x)])
            block = _rows_of_a_block(logits)
            columns = (column[start : start + rows].split(block) for column in (labels, *statistics))
            for part, part_labels, *part_statistics in zip(logits.split(block), *columns):
                probabilities = part.to(precise)  # in half precision, a copy for the softmax
                if bias is not None:
                    probabilities += bias
                _Statistics(*part_statistics).softmax_(probabilities, part_labels)
                if any(needed):
                    gradient = smoothing.gradient(probabilities, part_labels)
                    if dtype != precise:
                        part.copy_(gradient if scale == 1 else gradient.mul_(scale))
            if any(needed):
                gradients.add(start, logits)
        ctx.factors = 1 / scale, gradients.divisor / scale, 1 / scale
        ctx.grads = gradients.features, gradients.weight, gradients.bias
        ctx.dtypes = dtype, weight.dtype, None if bias is None else bias.dtype
        loss, nll_loss = smoothing.losses(statistics, labels)
        ctx.mark_non_differentiable(nll_loss)
        return loss, nll_loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> Tuple[Optional[Tensor], ...]:
        grads, ctx.grads = ctx.grads, None  # no longer held, so autograd need not copy them
        if grads is None:
            raise RuntimeError("the gradients of the fused loss are computed once: call backward() only once")
        features, weight, bias = (
            gradient if gradient is None else _times(gradient, grad_loss * factor).to(dtype)
            for gradient, factor, dtype in zip(grads, ctx.factors, ctx.dtypes)
        )
        return features, weight, None, None, None, bias


def _times(gradient: Tensor, factor: Tensor) -> Tensor:
    """``gradient * factor`` in the precision of ``factor``; a 1 on a CPU spares a pass over the weights."""
    is_one = factor.device.type == "cpu" and float(factor) == 1
    return gradient if is_one else gradient.to(factor.dtype).mul_(factor)
