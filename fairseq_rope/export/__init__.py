"""Export to CTranslate2: a folder that its engine computes with, without fairseq or PyTorch.

``ctranslate2.Translator(folder)`` translates, ``ctranslate2.Generator(folder)`` is a causal language model, and
``ctranslate2.Encoder(folder)`` a masked one.

:func:`export` exports a run, and :func:`export_model` a model in memory. Both need the package ``ctranslate2``.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Optional, Sequence

from ..checkpoints import model_folder
from ..checkpoints.files import check_free, making_folder
from ..masked_lm import RoFormerMaskedModel
from ..packages import package

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
"""CTranslate2's names of number formats."""

VERSION = 1
"""Counts changes of what an export holds: copies that an earlier version made inside model folders are made anew."""


def export(run: Path, out: Path, quantization: Optional[str] = None) -> str:
    """Exports a trained model, with the files that say how to split text; returns what has no place in the engine.

    Args:
        run: a model folder, or a checkpoint with its dictionaries beside it.
        out: the folder to make.
        quantization: one of :data:`QUANTIZATIONS`; None: ``float32``.

    Raises:
        CheckpointError: a file of the run is missing or cannot be used.
        ValueError: :func:`export_model` refuses the model or the folder.
    """
    check_free(out)
    package("ctranslate2")
    folder, checkpoint = (run.parent, run.name) if run.is_file() else (run, model_folder.CHECKPOINT)
    model = model_folder.load_model(folder, checkpoint)
    export_model(model, out, quantization, model_folder.text_files(folder))
    return "features only, without the head for masked words" if isinstance(model, RoFormerMaskedModel) else ""


def export_model(model: Any, out: Path, quantization: Optional[str] = None, beside: Sequence[Path] = ()) -> None:
    """Exports a model of this plugin; the vocabularies are the dictionaries that it was built with.

    Args:
        model: not changed.
        out: the folder to make; it appears when it is complete.
        quantization: one of :data:`QUANTIZATIONS`; None: ``float32``.
        beside: further files to copy into the folder.

    Raises:
        ValueError: ``out`` exists, CTranslate2 is not installed, or its engine cannot compute what the model does.
    """
    package("ctranslate2")
    from .spec import specification  # imports ctranslate2

    spec = specification(model)
    spec.validate()
    spec.optimize(quantization or "float32")
    with making_folder(out) as written:
        spec.save(str(written))
        for file in beside:
            shutil.copy(file, written)


def exported(run: Path, quantization: Optional[str] = None) -> Path:
    """The exported model inside a model folder, ``ctranslate2/<quantization>-<hash>``.

    It is made if there is none for the present checkpoint and dictionaries, and replaces older ones. Several processes
    may call this at once. If nobody can write to the model folder, the exported model is in the user's cache.

    Raises:
        CheckpointError, ValueError: :func:`export` fails.
    """
    model_folder.check_files(run, model_folder.CHECKPOINT)
    digest = hashlib.sha256(str(VERSION).encode())
    for file in (run / model_folder.CHECKPOINT, *sorted(run.glob("dict*.txt"))):
        digest.update(file.read_bytes())
    folder, name = run / "ctranslate2", quantization or "float32"
    out = folder / f"{name}-{digest.hexdigest()[:16]}"
    writable = os.access(folder if folder.is_dir() else run, os.W_OK)
    if not writable and not out.is_dir():
        out = _cache() / out.name
    if out.is_dir():
        return out
    try:
        export(run, out, quantization)
    except (ValueError, OSError):
        if not out.is_dir():  # nor made by another process
            raise
    for old in folder.glob(f"{name}-*") if writable else ():
        if old != out:
            shutil.rmtree(old, ignore_errors=True)
    return out


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairseq_rope"
