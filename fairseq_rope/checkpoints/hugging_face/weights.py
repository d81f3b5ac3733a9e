"""The tensors of a Hugging Face folder, read without running code, and written."""

from pathlib import Path
from typing import Any, Dict

import torch
from torch import Tensor

from ..files import CheckpointError

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
OLD_NAMES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}
"""Ends of names in weights that came from TensorFlow, to the present ones."""


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise CheckpointError("safetensors is not installed: pip install safetensors") from error
    return safetensors.torch


def read_weights(folder: Path) -> Dict[str, Tensor]:
    """All tensors by name: of ``model.safetensors``, or else of ``pytorch_model.bin``.

    Raises:
        CheckpointError: neither is there, or it is damaged, would run code, or holds something else.
    """
    for name in (SAFETENSORS, PICKLE):
        if (folder / f"{name}.index.json").is_file():
            raise CheckpointError(
                f"{folder}: its weights are in several files: join them with transformers' save_pretrained"
            )
        if (folder / name).is_file():
            tensors = (_read_safetensors if name == SAFETENSORS else _read_pickle)(folder / name)
            return _checked(folder / name, tensors)
    raise CheckpointError(f"{folder}: there is neither {SAFETENSORS} nor {PICKLE}: give a folder of a PyTorch model")


def _read_safetensors(path: Path) -> Any:
    library = _safetensors()
    try:
        return library.load_file(str(path))
    except Exception as error:
        raise CheckpointError(f"{path}: damaged ({' '.join(str(error).split())[:100]}): fetch it again") from error


def _read_pickle(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail anywhere in zip, pickle or storage code
        unsafe = "Weights only load failed" in str(error) or "Unsupported" in str(error)
        reason = "refused: it holds objects that could run code" if unsafe else "damaged"
        raise CheckpointError(f"{path}: {reason}: take the model's {SAFETENSORS}, or fetch the file again") from error


def _checked(path: Path, tensors: Any) -> Dict[str, Tensor]:
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise CheckpointError(f"{path}: not the tensors of a model by name: fetch it again")
    renamed: Dict[str, Tensor] = {}
    for name, value in tensors.items():
        for old, new in OLD_NAMES.items():
            if str(name).endswith(old):
                name = name[: -len(old)] + new
        renamed[str(name)] = value
    return renamed


def write_weights(tensors: Dict[str, Tensor], folder: Path) -> None:
    """Writes ``model.safetensors``, which transformers reads.

    Raises:
        CheckpointError: the package safetensors is missing.
        OSError: the folder cannot be written to.
    """
    separate = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    library = _safetensors()
    try:
        library.save_file(separate, str(folder / SAFETENSORS), metadata={"format": "pt"})
    except Exception as error:
        raise CheckpointError(f"{folder / SAFETENSORS}: cannot be written, is there room? ({error})") from error
