"""The tensors of a Hugging Face folder, read without running code, taken one by one, and written."""

from pathlib import Path
from typing import Any, Dict, Tuple

from torch import Tensor

from ...packages import package
from ..files import CheckpointError, load_safely

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
OLD_NAMES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}
"""Ends of names in weights that came from TensorFlow, to the present ones."""


def read_weights(folder: Path) -> Dict[str, Tensor]:
    """All tensors by name: of ``model.safetensors``, or else of ``pytorch_model.bin``.

    Raises:
        CheckpointError: neither is there, or it is damaged, would run code, or holds something else.
    """
    for name in (SAFETENSORS, PICKLE):
        if (folder / f"{name}.index.json").is_file():
            raise CheckpointError(
                f"{folder}: its weights are in several files: join them with transformers' "
                "save_pretrained(FOLDER, max_shard_size='1TB')"
            )
        if (folder / name).is_file():
            read = _read_safetensors if name == SAFETENSORS else _read_pickle
            return {_present_name(tensor): value for tensor, value in read(folder / name).items()}
    raise CheckpointError(f"{folder}: there is neither {SAFETENSORS} nor {PICKLE}: give a folder of a PyTorch model")


def _read_safetensors(path: Path) -> Any:
    library = package("safetensors.torch")
    try:
        return library.load_file(str(path))
    except Exception as error:
        raise CheckpointError(f"{path}: damaged ({' '.join(str(error).split())[:100]}): fetch it again") from error


def _read_pickle(path: Path) -> Any:
    return load_safely(path, f"take the model's {SAFETENSORS}, or fetch the file again")


def _present_name(name: str) -> str:
    for old, new in OLD_NAMES.items():
        if name.endswith(old):
            return name[: -len(old)] + new
    return name


def write_weights(tensors: Dict[str, Tensor], folder: Path) -> None:
    """Writes ``model.safetensors``, which transformers reads.

    Raises:
        ValueError: the package safetensors is missing, or the file cannot be written.
    """
    separate = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    library = package("safetensors.torch")
    try:
        library.save_file(separate, str(folder / SAFETENSORS), metadata={"format": "pt"})
    except Exception as error:
        raise CheckpointError(f"{folder / SAFETENSORS}: cannot be written, is there room? ({error})") from error


class Taken:
    """Tensors by name, each of which is taken once and checked."""

    def __init__(self, tensors: Dict[str, Tensor], where: str, remedy: str) -> None:
        self.left, self.where, self.remedy = dict(tensors), where, remedy

    def take(self, name: str, shape: Tuple[int, ...]) -> Tensor:
        if name not in self.left:
            raise CheckpointError(f"{self.where}: there is no tensor {name}: {self.remedy}")
        value = self.left.pop(name)
        if tuple(value.shape) != shape or not value.is_floating_point():
            found = f"{str(value.dtype)[6:]} of shape {tuple(value.shape)}"
            raise CheckpointError(
                f"{self.where}: {name} is {found}, not floating-point of shape {shape}: {self.remedy}"
            )
        if not value.isfinite().all():
            raise CheckpointError(f"{self.where}: {name} holds NaN or infinity: training had diverged")
        return value

    def has(self, name: str) -> bool:
        return name in self.left

    def check_none_left(self) -> None:
        if self.left:
            raise CheckpointError(f"{self.where}: {sorted(self.left)[0]!a:.100} has no place there: {self.remedy}")
