"""What a tuned model predicts."""

from pathlib import Path
from typing import Any, Dict, List

import torch
from fairseq import checkpoint_utils, utils

import fairseq_rope  # noqa: F401  (registers the architectures)

from ..command import Failure

HEAD = "sentence_classification_head"
"""fairseq's name of the head that the criterion trains."""

SENTENCES = 64  # of a batch


@torch.no_grad()
def predict(checkpoint: Path, data: Path) -> List[str]:
    """The predictions for the validation set, in its order: classes, or numbers.

    Args:
        data: the encoded task.
    """
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    cuda = torch.cuda.is_available()
    model: Any = models[0].eval().to("cuda" if cuda else "cpu")
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    batches = task.get_batch_iterator(dataset, max_sentences=SENTENCES, max_positions=task.max_positions())
    predictions: Dict[int, str] = {}
    for sample in batches.next_epoch_itr(shuffle=False):
        sample = utils.move_to_cuda(sample) if cuda else sample
        predictions.update(zip(sample["id"].tolist(), _predict(model, sample, task)))
    return [predictions[number] for number in range(len(dataset))]


def _predict(model: Any, sample: Any, task: Any) -> List[str]:
    """Classes or numbers of a batch, or the numbers of the choices with the highest score."""

    def logits_of(net_input: Any) -> torch.Tensor:
        """Shape ``(B, C)``; one class if the model ranks or gives numbers."""
        logits: torch.Tensor = model(**net_input, features_only=True, classification_head_name=HEAD)[0]
        if not logits.isfinite().all():  # the first class would stand for it
            raise Failure("the tuned model predicts numbers that are not finite: give lower --learning-rates")
        return logits

    if "net_input" not in sample:
        choices = [logits_of(sample[key]) for key in sorted(key for key in sample if key.startswith("net_input"))]
        return [str(index) for index in torch.cat(choices, dim=1).argmax(dim=1).tolist()]
    logits = logits_of(sample["net_input"])
    if task.cfg.regression_target:
        return [f"{value:.6g}" for value in logits.view(-1).float().tolist()]
    labels = task.label_dictionary
    return [labels[index + labels.nspecial] for index in logits.argmax(dim=1).tolist()]
