"""Whether a user's hook, method, subclass or wrapper stands between a module and what is known of it."""

import functools
from typing import Any, List

import torch
from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_intercepted(*modules: nn.Module) -> bool:
    """Whether somebody listens to the calls of one of these modules, and may change their inputs or outputs, or has
    replaced a method of one.

    Hooks for all modules, by which tools count, are not seen; nor is anything while a program is compiled.
    """
    if torch.compiler.is_compiling():
        return False
    return any(
        any(getattr(module, name) for name in HOOKS) or not is_unchanged(module, *_own_methods(module))
        for module in modules
    )


def _own_methods(module: nn.Module) -> List[str]:
    """Those that an instance has in place of its class's; :mod:`.products` gives such ones to linear layers."""
    own = {name: value for name, value in vars(module).items() if callable(value)}
    replaced = {name: getattr(type(module), name) for name in own if callable(getattr(type(module), name, None))}
    # pickle makes the class's own method one of the instance
    return [name for name, stock in replaced.items() if getattr(own[name], "__func__", None) is not stock]


def is_unchanged(instance: Any, *methods: str) -> bool:
    """Whether all these methods exist, and are fairseq's or this plugin's: none is a user's subclass's or wrapper's."""
    ours = ("fairseq", __name__.split(".")[0])
    return all(_package(part) in ours for method in methods for part in _parts(getattr(instance, method, None)))


def _parts(method: Any) -> List[Any]:
    """A method, or the functions in a partial one, as fairseq's activation checkpointing makes it."""
    if isinstance(method, functools.partial):
        return [method.func, *filter(callable, method.args)]
    return [method]


def _package(method: Any) -> str:
    """Where the code of a method is: ``__module__`` would be that of the function inside a wrapper."""
    function = getattr(method, "__func__", method)
    return str(getattr(function, "__globals__", {}).get("__name__", "")).split(".")[0]


def is_matrix(projection: nn.Module) -> bool:
    """Whether a projection is the product with its weight, and nothing else: a quantised one has no matrix."""
    return type(projection) is nn.Linear and not is_intercepted(projection)
