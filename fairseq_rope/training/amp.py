"""``--amp``: the gradients are divided by the loss scale once."""

from typing import Any

from fairseq.optim.amp_optimizer import AMPOptimizer


def install() -> None:
    """Lets fairseq's optimizer for ``--amp`` step the optimizer whose gradients it has divided.

    fairseq divides the gradients of PyTorch's optimizer, where it computes their norm, and then steps its own wrapper.
    ``GradScaler`` takes the wrapper for another optimizer, and divides them again: Adam's epsilon grows with the scale,
    and a training that continues, with another scale, goes on with wrong moments. A second call changes nothing.
    """

    def step(self: AMPOptimizer, closure: Any = None, groups: Any = None) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    AMPOptimizer.step = step
