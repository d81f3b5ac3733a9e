"""fairseq's label-smoothed cross entropy, without the logits and log-probabilities of a whole batch in memory."""

import inspect
from typing import Any, Dict, Tuple

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.models import FairseqLanguageModel
from torch import Tensor, nn

from ..interception import is_intercepted, is_unchanged
from ..kinds import kind_of
from ..output_projection import output_weight, tell_once
from .linear_loss import linear_label_smoothed_nll_loss


def gives_features(model: Any) -> bool:
    """Whether the model returns its features and fairseq's targets, nobody waits for its logits or changes them there,
    and its parameters may also be used behind its forward pass."""
    while isinstance(getattr(model, "module", None), nn.Module):  # wrappers for several processes
        # PyTorch's looks for unused parameters in the forward pass alone
        if getattr(model, "find_unused_parameters", False) or is_intercepted(model):
            return False
        model = model.module
    if is_intercepted(model) or not is_unchanged(model, "forward", "get_targets"):
        return False
    if isinstance(model, FairseqLanguageModel):  # it hands arguments that it does not know to its decoder
        return True
    return "features_only" in inspect.signature(type(model).forward).parameters


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class FusedLabelSmoothedCrossEntropyCriterion(LabelSmoothedCrossEntropyCriterion):
    """``label_smoothed_cross_entropy`` with the same options, logs, loss and gradients, in less time and memory.

    It serves all of fairseq's transformers. It calls fairseq's own criterion where it cannot fuse: with an adaptive
    softmax, another output layer, hooks on it or on the model, a subclass with other logits, probabilities or targets,
    a model without ``features_only``, losses of single tokens, or ``--report-accuracy``.
    """

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> Any:
        """As in fairseq.

        Raises:
            ValueError: the task trains masked models, whose loss is of the masked tokens alone.
        """
        if kind_of(task) == "masked":
            raise ValueError(
                "--criterion fused_label_smoothed_cross_entropy is not for masked models: give fused_masked_lm or "
                "masked_lm, and in fine-tuning the criterion of the task's name"
            )
        return super().build_criterion(cfg, task)

    def forward(self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Any, Any]:
        weight = output_weight(model)
        if weight is None or not reduce or self.report_accuracy or not gives_features(model):
            tell_once("label_smoothed_cross_entropy computes the loss")
            return super().forward(model, sample, reduce)
        features = model(**sample["net_input"], features_only=True)[0]  # (B, T, C)
        skip = max(0, self.ignore_prefix_size)
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
