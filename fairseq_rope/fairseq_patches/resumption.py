"""Lets a training that continues go on as without the interruption: with the same batches, and the same parameters."""

from typing import Any, Callable, Dict, List, Optional

import torch
from fairseq.data.iterators import EpochBatchIterator
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.tasks import FairseqTask

from .. import products

Function = Callable[..., Any]

FIRST_EPOCH = 1
BATCHES = "batches"
"""The entry of an iterator's state with the number of batches that an epoch has on each device."""
PRODUCTS = "products"
"""The entry of an iterator's state with the library for products, if the run has needed one."""
PARAMETERS = "fp32_params"
"""The entry of an optimizer's state with the parameters in fp32, if the model's are in half precision."""


def batches_of_the_first_epoch(stock: Function) -> Function:
    """Lets tasks make the batches of all epochs as in the first one, and what is random in them anew in each epoch.

    Before fairseq makes batches, it shuffles sentences of equal length by the seed and the present epoch. A run makes
    its batches once, in its first epoch, and keeps them; a continued run would make others. ``masked_lm`` masks other
    tokens in each epoch, and ``--shorten-method random_crop`` crops other pieces. fairseq's processes that load the
    data live as long as the training, and would repeat the masks and pieces of the epoch in which they began.

    The epoch and the place of the iterator still come from the checkpoint. If fairseq makes new batches in each epoch
    (``--update-epoch-batch-itr``), they stay.
    """

    def get_batch_iterator(self: FairseqTask, dataset: Any, *args: Any, **options: Any) -> Any:
        made_anew = options.get("update_epoch_batch_itr") or options.get("disable_iterator_cache")
        if "epoch" in options and not made_anew and self.can_reuse_epoch_itr(dataset):
            options["epoch"] = FIRST_EPOCH
        iterator = stock(self, dataset, *args, **options)
        iterator.reuse_dataloader = False  # processes of the next epoch get the dataset as it is then
        return iterator

    return get_batch_iterator


def keeps_number_of_batches(stock: Function) -> Function:
    """Lets checkpoints carry the number of batches of an epoch, and the library for products."""

    def state_dict(self: EpochBatchIterator) -> Dict[str, Any]:
        return {**stock(self), BATCHES: len(self), PRODUCTS: products.chosen()}

    return state_dict


def scales_the_place(stock: Function) -> Function:
    """Goes on at the same share of the epoch if its number of batches has changed, and takes the checkpoint's library
    for products, as the two round differently.

    With another number of devices or another size of batches, fairseq would see some text twice or never.
    """

    def load_state_dict(self: EpochBatchIterator, state: Dict[str, Any]) -> None:
        if (library := state.get(PRODUCTS)) is not None:
            products.choose(library)
        self.epoch = state["epoch"]  # some samplers make the batches of this epoch
        if hasattr(self.dataset, "set_epoch"):  # before a process that loads data begins with it
            self.dataset.set_epoch(self.epoch)
        now, before = len(self), state.get(BATCHES)
        if before and before != now:
            place = round(state.get("iterations_in_epoch", 0) * now / before)
            state = {**state, "iterations_in_epoch": min(place, now - 1)}
        stock(self, state)

    return load_state_dict


def saves_fp32_parameters(stock: Function) -> Function:
    """Lets the state of the optimizer for half precision have the parameters in fp32; fairseq saves only the model's,
    rounded ones."""

    def state_dict(self: FP16Optimizer) -> Dict[str, Any]:
        return {**stock(self), PARAMETERS: [parameter.detach() for parameter in _in_fp32(self)]}

    return state_dict


def loads_fp32_parameters(stock: Function) -> Function:
    """Takes them back if the model has the same ones, rounded: it may be an average, or have been converted."""

    def load_state_dict(self: FP16Optimizer, state: Dict[str, Any], overrides: Optional[Dict[str, Any]] = None) -> None:
        stock(self, {name: value for name, value in state.items() if name != PARAMETERS}, overrides)
        pairs, dtype = list(zip(state.get(PARAMETERS, []), _in_fp32(self))), self.fp16_params[0].dtype
        if all(torch.equal(saved.to(now.device, dtype).float(), now) for saved, now in pairs):
            for saved, now in pairs:
                now.data.copy_(saved)

    return load_state_dict


def _in_fp32(optimizer: FP16Optimizer) -> List[torch.Tensor]:
    """The parameters that are updated: one for each device or, without flat ones, one for each of the model's."""
    parameters = optimizer.fp32_params
    return list(parameters.values()) if isinstance(parameters, dict) else list(parameters)
