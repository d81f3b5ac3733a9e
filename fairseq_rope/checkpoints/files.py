"""Reads fairseq's checkpoints safely, and writes them whole or not at all."""

import argparse
import functools
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import torch

from .evaluated import check_evaluated


def _of_each_numpy(function: Any) -> Iterator[Any]:
    """What makes a number or array of NumPy again, by its names in NumPy 1 and 2."""
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        made = functools.partial(function)
        for name in ("__name__", "__qualname__"):  # PyTorch before 2.6 asks for the first
            setattr(made, name, function.__name__)
        made.__module__ = module
        yield made


# fairseq puts these into checkpoints: its arguments and, with --eval-bleu, scores as NumPy numbers
_IN_CHECKPOINTS: Any = [argparse.Namespace, np.ndarray, np.dtype]
_IN_CHECKPOINTS += [each for value in (np.float64(), np.empty(0)) for each in _of_each_numpy(value.__reduce__()[0])]
_IN_CHECKPOINTS += [type(np.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")]
torch.serialization.add_safe_globals(_IN_CHECKPOINTS)


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message names the file, and the parameter if it is about one."""


def load_checkpoint(path: Path) -> Dict[str, Any]:
    """Loads a fairseq checkpoint on the CPU, safely: it refuses a file that would run code, now or in fairseq.

    Raises:
        CheckpointError: the file is missing, damaged, refused, or not a fairseq checkpoint.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint")
    state = load_safely(path, "use a checkpoint that fairseq-train wrote")
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise CheckpointError(f"{path}: not a fairseq checkpoint (it has no entry `model`)")
    settings = state.get("args") if state.get("cfg") is None else state["cfg"]
    if not isinstance(settings, (dict, argparse.Namespace)):
        raise CheckpointError(f"{path}: not a fairseq checkpoint (it has no configuration)")
    try:
        check_evaluated(state.get("args"), state.get("cfg"))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return state


def load_safely(path: Path, remedy: str) -> Any:
    """What a file of PyTorch holds, on the CPU.

    Raises:
        CheckpointError: it is damaged, or would run code; the message has the ``remedy``.
        PermissionError: this user cannot read it.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in zip, pickle or storage code
        unsafe = "Weights only load failed" in str(error) or "Unsupported" in str(error)
        reason = "refused: it holds objects that could run code" if unsafe else "damaged or not a checkpoint"
        raise CheckpointError(f"{path}: {reason}: {remedy}") from error


def check_finite(model: Dict[str, Any], place: Path) -> None:
    """Raises CheckpointError if a parameter of ``model``, which came from ``place``, is NaN or infinite.

    The official fairseq's ``_float_tensor`` is memory that nobody set: only its type is used.
    """
    for name, value in model.items():
        if name.endswith("_float_tensor") or not (torch.is_tensor(value) and value.is_floating_point()):
            continue
        if not value.isfinite().all():
            raise CheckpointError(f"{place}: parameter {name} holds NaN or infinity: training had diverged")


def save_checkpoint(state: Dict[str, Any], path: Path) -> None:
    """Writes a checkpoint beside its target and renames it.

    Raises:
        CheckpointError: PyTorch cannot write it.
        OSError: the folder cannot be written to.
    """
    with replacing(path) as temporary:
        try:
            torch.save(state, temporary)
        except RuntimeError as error:  # what PyTorch makes of a full disk
            reason = str(error).split("\n")[0]
            raise CheckpointError(f"{path}: cannot be written, is there room? ({reason})") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write, with the same name, in a temporary folder beside ``path``.

    The file becomes ``path`` when the block ends, and vanishes if the block fails. Two processes do not share a folder,
    and PyTorch, which stores the name of a file in it, stores the final name.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no regular file: name another one")
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}."
    try:
        with tempfile.TemporaryDirectory(".tmp", prefix, path.parent) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        if str(error.filename).startswith(str(path.with_name(prefix))):
            error.filename = str(path)  # the name that the user knows
        raise


@contextmanager
def making_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, beside ``path``; it becomes ``path`` when the block ends, and vanishes if the block fails.

    Raises:
        CheckpointError: ``path`` exists.
        OSError: it cannot be written; ``filename`` is ``path``.
    """
    check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        written = Path(temporary) / "made"
        written.mkdir()
        try:
            yield written
            try:
                os.rename(written, path)
            except OSError:
                check_free(path)  # another process may have made it meanwhile
                raise
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(written), str(path))) from error
        except OSError as error:
            if error.errno is not None:
                error.filename = str(path)  # the name that the user knows
            raise


def check_free(path: Path) -> None:
    """Raises CheckpointError if ``path`` exists."""
    if path.exists() or path.is_symlink():
        raise CheckpointError(f"{path} exists already: choose another folder, or remove it")
