"""Lets a training that continues in a later epoch see the same batches as without the interruption.

Before fairseq makes batches, it shuffles sentences of equal length by the seed and the present epoch. A run makes its
batches once, in its first epoch, and keeps them; a continued run would make others.

A masked language model masks other tokens in each epoch. fairseq's processes that load the data live as long as the
training, and never learn of the next epoch: they would repeat the masks of the epoch in which they began.
"""

import functools
from typing import Any

from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

FIRST_EPOCH = 1


def install() -> None:
    """Lets tasks make the batches of all epochs as in the first one, and ``masked_lm`` the masks of each epoch anew.

    It wraps ``FairseqTask.get_batch_iterator``; the epoch and the place of the iterator still come from the checkpoint.
    If fairseq makes new batches in each epoch (``--update-epoch-batch-itr``), they stay. A second call changes nothing.
    """
    stock = FairseqTask.get_batch_iterator
    if hasattr(stock, "__wrapped__"):
        return

    @functools.wraps(stock)
    def get_batch_iterator(self: FairseqTask, dataset: Any, *args: Any, **options: Any) -> Any:
        made_anew = options.get("update_epoch_batch_itr") or options.get("disable_iterator_cache")
        if "epoch" in options and not made_anew and self.can_reuse_epoch_itr(dataset):
            options["epoch"] = FIRST_EPOCH
        iterator = stock(self, dataset, *args, **options)
        if isinstance(self, MaskedLMTask):
            iterator.persistent_workers = False  # those of the next epoch get the dataset as it is then
        return iterator

    FairseqTask.get_batch_iterator = get_batch_iterator
