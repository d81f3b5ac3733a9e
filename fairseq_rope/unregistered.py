"""A reference from one module to another that does not make the second a child of the first."""

from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Unregistered(Generic[M]):
    """Holds a module for another module, which does not register it and need not be initialised before it holds it.

    ``nn.Module`` registers each module that is assigned to it. The state dict would then have the parameters of a
    shared module once for each layer that uses it; and before ``nn.Module.__init__`` the assignment fails. Inside this
    holder, the module belongs to its owner alone. A holder is copied and pickled like any object: if the owner is
    copied as well, the copy of the holder refers to the copy of the module.

    Args:
        module: the module that is referred to; its owner registers it.
    """

    def __init__(self, module: M) -> None:
        self.module = module
