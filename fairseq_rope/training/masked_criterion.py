"""fairseq's loss of masked language models, without the logits of a whole batch in memory."""

from typing import Any, Dict, Tuple

from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.models.roberta.model import RobertaLMHead
from torch import nn

from ..interception import is_intercepted, is_unchanged
from ..kinds import kind_of
from ..output_projection import tell_once
from .criterion import gives_features
from .linear_loss import linear_label_smoothed_nll_loss


@register_criterion("fused_masked_lm", dataclass=MaskedLmConfig)
class FusedMaskedLmLoss(MaskedLmLoss):
    """``masked_lm`` with the same options, logs, loss and gradients, in less time and memory.

    Head and projection see masked tokens only. It serves all models with the head of fairseq's RoBERTa. For others, for
    a subclass with other logits or targets, for hooks on the head or the model, and on TPUs, it calls fairseq's own
    criterion.
    """

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> Any:
        """As in fairseq.

        Raises:
            ValueError: the task trains models of another kind.
        """
        if (kind := kind_of(task)) not in (None, "masked"):
            raise ValueError(
                f"--criterion fused_masked_lm is for masked models: a {kind} model takes "
                "fused_label_smoothed_cross_entropy"
            )
        return super().build_criterion(cfg, task)

    def forward(self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Any, Any, Any]:
        encoder: Any = getattr(model, "encoder", None)
        head: Any = getattr(encoder, "lm_head", None)
        is_known = isinstance(head, RobertaLMHead) and is_unchanged(head, "forward") and not is_intercepted(head)
        is_whole = is_known and head.weight.dim() == 2  # FSDP keeps weights in pieces
        is_plain = is_whole and is_unchanged(encoder, "forward", "output_layer")
        if not is_plain or self.tpu or not gives_features(model):
            tell_once("masked_lm computes the loss")
            return super().forward(model, sample, reduce)
        masked = sample["target"].ne(self.padding_idx)
        features = model(**sample["net_input"], features_only=True)[0][masked]  # (N, C)
        x = head.layer_norm(head.activation_fn(head.dense(features)))
        loss, _ = linear_label_smoothed_nll_loss(x, head.weight, sample["target"][masked], epsilon=0, bias=head.bias)
        sample_size = masked.int().sum()
        log = {name: sample[name] for name in ("ntokens", "nsentences")}
        return loss, sample_size, {"loss": loss.data, **log, "sample_size": sample_size}
