"""``--amp``: the gradients are divided by the loss scale once."""

from typing import Any, Callable

from fairseq.optim.amp_optimizer import AMPOptimizer


def steps_once(stock: Callable[..., Any]) -> Callable[..., None]:
    """Steps the optimizer whose gradients fairseq has divided.

    fairseq divides the gradients of PyTorch's optimizer, where it computes their norm, and then steps its own wrapper.
    ``GradScaler`` takes the wrapper for another optimizer, and divides them again: Adam's epsilon grows with the scale,
    and a training that continues, with another scale, goes on with wrong moments.
    """

    def step(self: AMPOptimizer, closure: Any = None, groups: Any = None) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    return step
