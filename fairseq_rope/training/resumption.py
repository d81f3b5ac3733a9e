"""Lets a training that continues in a later epoch see the same batches as without the interruption.

Before fairseq makes batches, it shuffles sentences of equal length by the seed and the present epoch. A run makes its
batches once, in its first epoch, and keeps them; a continued run would make others.

With another number of devices or another size of batches, an epoch has another number of them. fairseq would go on at
the same number, and see some text twice or never; here a run goes on at the same share of the epoch.

In half precision, fairseq updates parameters in fp32 and saves only the model's, rounded ones. A continued run would
begin with these; here checkpoints also carry those in fp32.

``masked_lm`` masks other tokens in each epoch, and ``--shorten-method random_crop`` crops other pieces. fairseq's
processes that load the data live as long as the training, and never learn of the next epoch: they would repeat the
masks and pieces of the epoch in which they began.
"""

import functools
from typing import Any, Dict, List, Optional

import torch
from fairseq.data.iterators import EpochBatchIterator
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.tasks import FairseqTask

MARK = "batches_of_the_first_epoch"
FIRST_EPOCH = 1
BATCHES = "batches"
"""The entry of an iterator's state with the number of batches that an epoch has on each device."""
PARAMETERS = "fp32_params"
"""The entry of an optimizer's state with the parameters in fp32, if the model's are in half precision."""


def install() -> None:
    """Wraps fairseq's iterators of training sets and its half-precision optimizer. A second call changes nothing."""
    if not hasattr(FairseqTask.get_batch_iterator, MARK):
        _make_batches_as_in_the_first_epoch()
        _keep_the_share_of_the_epoch()
        _keep_the_parameters_in_fp32()


def _make_batches_as_in_the_first_epoch() -> None:
    """Lets tasks make the batches of all epochs as in the first one, and what is random in them anew in each epoch.

    The epoch and the place of the iterator still come from the checkpoint. If fairseq makes new batches in each epoch
    (``--update-epoch-batch-itr``), they stay.
    """
    stock = FairseqTask.get_batch_iterator

    @functools.wraps(stock)
    def get_batch_iterator(self: FairseqTask, dataset: Any, *args: Any, **options: Any) -> Any:
        made_anew = options.get("update_epoch_batch_itr") or options.get("disable_iterator_cache")
        if "epoch" in options and not made_anew and self.can_reuse_epoch_itr(dataset):
            options["epoch"] = FIRST_EPOCH
        iterator = stock(self, dataset, *args, **options)
        iterator.persistent_workers = False  # those of the next epoch get the dataset as it is then
        return iterator

    setattr(get_batch_iterator, MARK, True)
    FairseqTask.get_batch_iterator = get_batch_iterator


def _keep_the_share_of_the_epoch() -> None:
    """Lets checkpoints carry the number of batches of an epoch, by which the place in it is scaled if it changes."""
    stock_state, stock_load = EpochBatchIterator.state_dict, EpochBatchIterator.load_state_dict

    @functools.wraps(stock_state)
    def state_dict(self: EpochBatchIterator) -> Dict[str, Any]:
        return {**stock_state(self), BATCHES: len(self)}

    @functools.wraps(stock_load)
    def load_state_dict(self: EpochBatchIterator, state: Dict[str, Any]) -> None:
        self.epoch = state["epoch"]  # some samplers make the batches of this epoch
        now, before = len(self), state.get(BATCHES)
        if before and before != now:
            place = round(state.get("iterations_in_epoch", 0) * now / before)
            state = {**state, "iterations_in_epoch": min(place, now - 1)}
        stock_load(self, state)

    EpochBatchIterator.state_dict, EpochBatchIterator.load_state_dict = state_dict, load_state_dict


def _keep_the_parameters_in_fp32() -> None:
    """Lets the state of the optimizer for half precision have the parameters in fp32.

    They come back only if the model has the same ones, rounded: it may be an average, or have been converted.
    """
    stock_state, stock_load = FP16Optimizer.state_dict, FP16Optimizer.load_state_dict

    @functools.wraps(stock_state)
    def state_dict(self: FP16Optimizer) -> Dict[str, Any]:
        return {**stock_state(self), PARAMETERS: [parameter.detach() for parameter in _in_fp32(self)]}

    @functools.wraps(stock_load)
    def load_state_dict(self: FP16Optimizer, state: Dict[str, Any], overrides: Optional[Dict[str, Any]] = None) -> None:
        stock_load(self, {name: value for name, value in state.items() if name != PARAMETERS}, overrides)
        pairs, dtype = list(zip(state.get(PARAMETERS, []), _in_fp32(self))), self.fp16_params[0].dtype
        if all(torch.equal(saved.to(now.device, dtype).float(), now) for saved, now in pairs):
            for saved, now in pairs:
                now.data.copy_(saved)

    FP16Optimizer.state_dict, FP16Optimizer.load_state_dict = state_dict, load_state_dict


def _in_fp32(optimizer: FP16Optimizer) -> List[torch.Tensor]:
    """The parameters that are updated: one for each device or, without flat ones, one for each of the model's."""
    parameters = optimizer.fp32_params
    return list(parameters.values()) if isinstance(parameters, dict) else list(parameters)
