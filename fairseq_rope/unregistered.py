"""A reference from one module to another that does not make the second a child of the first."""

from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Unregistered(Generic[M]):
    """Holds a module for another module, which neither registers it nor must be initialised to hold it.

    ``nn.Module`` registers each module that is assigned to it. A module that many layers share would then have its
    parameters in the state dict once for each layer; and before ``nn.Module.__init__`` the assignment fails. Assigned
    inside this holder, the module stays with its owner alone. A holder is copied and pickled like any object: if the
    owner is copied as well, the copy of the holder refers to the copy of the module.

    Args:
        module: the module that is referred to; its owner registers it.
    """

    def __init__(self, module: M) -> None:
        self.module = module
