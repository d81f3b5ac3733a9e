"""fairseq's label-smoothed cross entropy, without the logits and log-probabilities of a whole batch in memory."""

import inspect
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.models import FairseqLanguageModel
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHUNK = {"cpu": 2**25, "cuda": 2**28}
"""Bytes of logits held at once, by type of device."""

FP16_SCALE = 16.0
"""Of gradients between forward and backward pass in fp16, where the share ``e`` of the smoothing is a subnormal number.

The loss scale, which is there against that, is known in the backward pass only.
"""


def linear_label_smoothed_nll_loss(
    features: Tensor, weight: Tensor, target: Tensor, epsilon: float, ignore_index: Optional[int] = None
) -> Tuple[Tensor, Tensor]:
    """``label_smoothed_nll_loss`` of fairseq for logits ``features @ weight^T``, which never exist as a whole.

    With ``e = epsilon / (V - 1)`` and log-probabilities ``lp``, a token's loss is
    ``-(1 - epsilon - e) lp[target] - e sum(lp)`` and its gradient with respect to the logits
    ``softmax - e - (1 - epsilon - e) onehot``. A few hundred tokens at a time go through the projection, the loss and
    both gradients, so that the backward pass multiplies nothing again. Softmax and sums are in fp32.

    Args:
        features: ``(N, C)``, the decoder's output. Under autocast it is cast to autocast's type.
        weight: ``(V, C)``, of the output projection, which has no bias.
        target: ``(N,)``, int64.
        epsilon: of the label smoothing.
        ignore_index: a target with this index has no loss.

    Returns:
        Loss and negative log-likelihood, both summed, in fp32; the second has no gradient.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        features = features.to(torch.get_autocast_dtype(device))
    if ignore_index is not None and device == "cpu":  # elsewhere the number of tokens would have to be waited for
        kept = target.ne(ignore_index)
        features, target, ignore_index = features[kept], target[kept], None
    if not torch.is_grad_enabled():  # else the gradient of a weight that requires one would be computed all the same
        features, weight = features.detach(), weight.detach()
    with torch.autocast(device, enabled=False):
        loss, nll_loss = _LinearLoss.apply(features, weight, target, epsilon, ignore_index)
    return loss, nll_loss


class _LinearLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, target: Tensor, epsilon: float, ignore_index: Optional[int]
    ) -> Tuple[Tensor, Tensor]:
        (tokens, types), dtype = (features.size(0), weight.size(0)), features.dtype
        precise = torch.promote_types(dtype, torch.float)
        smooth = epsilon / (types - 1)
        certain = 1 - epsilon - smooth
        matrix = weight.to(dtype)
        needs_features, needs_weight = ctx.needs_input_grad[:2]
        grad_features = torch.empty_like(features) if needs_features else None
        grad_weight = weight.new_zeros(weight.shape, dtype=precise) if needs_weight else None
        loss, nll_loss = (features.new_zeros((), dtype=precise) for _ in range(2))
        scale = FP16_SCALE if dtype == torch.half else 1.0

        limit = CHUNK.get(features.device.type, CHUNK["cuda"])
        chunks = max(1, -(-tokens * types * features.element_size() // limit))
        rows = max(1, -(-tokens // chunks))
        logits = features.new_empty(rows, types)
        # in half precision, a copy in fp32 for the softmax, and a place for a chunk's share of the weight's gradient
        wide = logits if dtype == precise else features.new_empty(rows, types, dtype=precise)
        share = None if dtype == precise or grad_weight is None else torch.empty_like(matrix)
        for start in range(0, tokens, rows):
            x, labels = features[start : start + rows], target[start : start + rows, None]
            z = torch.mm(x, matrix.t(), out=logits[: len(x)])
            p = wide[: len(x)]
            if p is not z:
                p = p.copy_(z)
            at_target, total, highest = p.gather(-1, labels), p.sum(-1, keepdim=True), p.amax(-1, keepdim=True)
            torch.softmax(p, dim=-1, out=p)
            log_sum = highest - p.amax(-1, keepdim=True).log_()  # log sum exp(z): at the maximum, p = exp(z) / sum
            nll = log_sum - at_target
            token_loss = certain * nll + smooth * (types * log_sum - total)
            if ignore_index is not None:
                ignored = labels.eq(ignore_index)
                nll, token_loss = nll.masked_fill(ignored, 0), token_loss.masked_fill(ignored, 0)
            nll_loss, loss = nll_loss + nll.sum(), loss + token_loss.sum()
            if grad_features is None and grad_weight is None:
                continue
            p.sub_(smooth).scatter_add_(-1, labels, p.new_full((1, 1), -certain).expand_as(labels))
            if ignore_index is not None:
                p.masked_fill_(ignored, 0)
            grad = p if p is z else torch.mul(p, scale, out=z)
            if grad_features is not None:
                torch.mm(grad, matrix, out=grad_features[start : start + rows])
            if grad_weight is not None and share is None:
                grad_weight.addmm_(grad.t(), x)
            elif grad_weight is not None:
                grad_weight.add_(torch.mm(grad.t(), x, out=share))
        ctx.scale = scale
        ctx.grads = grad_features, None if grad_weight is None else grad_weight.to(weight.dtype)
        ctx.mark_non_differentiable(nll_loss)
        return loss, nll_loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> Tuple[Optional[Tensor], ...]:
        grads, ctx.grads = ctx.grads, None  # held no longer, so that autograd need not copy them
        if grads is None:
            raise RuntimeError("the gradients of the fused loss are computed once: call backward() only once")
        grad_loss = grad_loss / ctx.scale
        is_one = grad_loss.device.type == "cpu" and float(grad_loss) == 1  # spares a pass over the weights
        return (*(grad if grad is None or is_one else grad * grad_loss for grad in grads), None, None, None)


def output_weight(model: nn.Module) -> Optional[Tensor]:
    """The weight ``(V, C)`` of a transformer whose logits are a plain linear function of its features; else None.

    None, too, while FSDP holds the weight in pieces.
    """
    decoder = getattr(model, "decoder", None)
    projection = getattr(decoder, "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None:
        return None
    if getattr(decoder, "adaptive_softmax", None) is not None:
        return None
    return projection.weight if projection.weight.dim() == 2 else None


def _gives_features(model: Any) -> bool:
    while isinstance(getattr(model, "module", None), nn.Module):  # wrappers for several processes
        model = model.module
    takes = "features_only" in inspect.signature(type(model).forward).parameters
    return takes or isinstance(model, FairseqLanguageModel)  # which hands what it does not know to its decoder


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class FusedLabelSmoothedCrossEntropyCriterion(LabelSmoothedCrossEntropyCriterion):
    """``label_smoothed_cross_entropy`` with the same options, logs, loss and gradients, in less time and memory.

    It serves any of fairseq's transformers. What it cannot fuse (an adaptive softmax, another output layer, a model
    without ``features_only``, losses of single tokens, ``--report-accuracy``) goes fairseq's own way.
    """

    def forward(self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Any, Any]:
        weight = output_weight(model)
        if weight is None or not reduce or self.report_accuracy or not _gives_features(model):
            return super().forward(model, sample, reduce)
        features = model(**sample["net_input"], features_only=True)[0]  # (B, T, C)
        skip = self.ignore_prefix_size
        loss, nll_loss = linear_label_smoothed_nll_loss(
            features[:, skip:].flatten(0, 1), weight, sample["target"][:, skip:].flatten(), self.eps, self.padding_idx
        )
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.data,
            "nll_loss": nll_loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return loss, sample_size, log
