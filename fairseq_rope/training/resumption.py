"""A training that goes on in a later epoch sees the batches that it would have seen without the interruption.

fairseq shuffles sentences of equal length before it makes batches, by the seed and the epoch in which it makes them.
A run makes its batches once, in its first epoch, and keeps them; a run that was interrupted would make others.
"""

import functools
from typing import Any

from fairseq.tasks import FairseqTask

FIRST_EPOCH = 1


def install() -> None:
    """Lets tasks make the batches that serve all epochs as in the first one. A second call changes nothing.

    It wraps ``FairseqTask.get_batch_iterator``; the iterator's own epoch and place come from the checkpoint all the
    same. Batches that are made anew in each epoch (``--update-epoch-batch-itr``) stay fairseq's.
    """
    stock = FairseqTask.get_batch_iterator
    if hasattr(stock, "__wrapped__"):
        return

    @functools.wraps(stock)
    def get_batch_iterator(self: FairseqTask, dataset: Any, *args: Any, **options: Any) -> Any:
        made_anew = options.get("update_epoch_batch_itr") or options.get("disable_iterator_cache")
        if "epoch" in options and not made_anew and self.can_reuse_epoch_itr(dataset):
            options["epoch"] = FIRST_EPOCH
        return stock(self, dataset, *args, **options)

    FairseqTask.get_batch_iterator = get_batch_iterator
