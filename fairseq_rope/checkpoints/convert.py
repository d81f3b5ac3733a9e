"""One model in different forms: both layouts of RoPE, this plugin's checkpoints, fairseq's own, Hugging Face's folders.

::

    fairseq-rope convert CHECKPOINT --to half --out FILE
    fairseq-rope convert CHECKPOINT --to plugin --out FILE
    fairseq-rope convert FOLDER --to plugin --out RUN
    fairseq-rope convert RUN --to hugging-face --out FOLDER
    fairseq-rope convert CHECKPOINT --position rope --out FILE
    fairseq-rope convert CHECKPOINT --dictionary DICT --out FILE
"""

from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from ..loading import configuration_in, dictionaries_of, entry
from ..positions.rope import LAYOUTS
from . import fairseq_transformer, positions, rope_layout, vocabulary
from .configuration import model_configuration
from .files import CheckpointError, check_finite, load_checkpoint, save_checkpoint
from .hugging_face import bert, m2m100, marian
from .hugging_face.folders import CONFIG, read_object
from .model_folder import CHECKPOINT

FORMS = {
    **{layout: f"RoPE's layout {layout}" for layout in LAYOUTS},
    "plugin": "as this plugin's model: fairseq's own transformer, or a Hugging Face folder (RoFormer, BERT, MarianMT, "
    "M2M100, NLLB)",
    "fairseq": "the way back",
    "hugging-face": "a masked language model, or one that was MarianMT, as a folder for Hugging Face's transformers",
}
"""Name of a form, to its description."""


def convert_file(path: Path, to: str, out: Path) -> str:
    """Writes the checkpoint ``path`` to ``out`` in the form ``to``, one of :data:`FORMS`; returns what it became.

    ``path`` is a model folder or its checkpoint, or a folder of Hugging Face's; ``out`` is a folder if one side is.

    Raises:
        ValueError: the checkpoint cannot be loaded or written, or has no such form; an extra is not installed.
    """
    if to == "hugging-face":
        folder = path if path.is_dir() else path.parent
        return (marian if (folder / marian.SOURCE).is_file() else bert).export_folder(path, out)
    if to == "plugin" and path.is_dir() and not (path / CHECKPOINT).is_file():
        kind = read_object(path / CONFIG).get("model_type")
        others = {marian.MODEL_TYPE: marian.import_folder, m2m100.MODEL_TYPE: m2m100.import_folder}
        return others.get(str(kind), bert.import_folder)(path, out)
    state = load_whole(path)
    if to in LAYOUTS:
        converted = rope_layout.convert_checkpoint(state, to)
        became = f"in the layout {to}"
    else:
        converted = fairseq_transformer.convert_checkpoint(state, to)
        became = f"as {model_configuration(converted).arch}"
    save_checkpoint(converted, out)
    lost = "last_optimizer_state" in state and "last_optimizer_state" not in converted
    return f"{path} {became}" + (", without the optimizer's state" if lost else "")


def change_model(path: Path, fields: Mapping[str, Any], seed: int, dictionaries: Sequence[Path], out: Path) -> str:
    """Writes the checkpoint ``path`` with other positions or larger dictionaries to ``out``; returns what it became.

    Args:
        fields: as of :func:`positions.convert_checkpoint`; none: the positions stay.
        dictionaries: as of :func:`vocabulary.grow`; none: they stay.

    Raises:
        ValueError: the checkpoint cannot be loaded or written, or the positions do not fit it.
    """
    state, said = load_whole(path), []
    if fields:
        change = positions.convert_checkpoint(state, fields, seed)
        state, said = change.state, [change.report(seed)]
    if dictionaries:
        state = vocabulary.grow(state, dictionaries, seed)
        said.append(f"for {', '.join(model_configuration(state).dictionaries.values())}")
    save_checkpoint(state, out)
    became = f"{path} as {model_configuration(state).arch}, without the optimizer's state"
    return "; ".join(filter(None, [became, *said]))


def load_whole(path: Path) -> Dict[str, Any]:
    """A checkpoint, or that of a model folder, all of whose parameters are finite, with its dictionaries' digests.

    Raises:
        CheckpointError: it cannot be loaded, or is a part of one.
    """
    checkpoint = path / CHECKPOINT if (path / CHECKPOINT).is_file() else path
    state = load_checkpoint(checkpoint)
    check_finite(state["model"], checkpoint)
    if "shard_metadata" in state:
        raise CheckpointError(f"{checkpoint}: a part of a sharded checkpoint: join the parts first")
    cfg, words = configuration_in(state), dictionaries_of(state, checkpoint)
    if words and not entry(cfg, "dictionaries"):
        digests = {side: own.digest for side, own in words.items()}
        (cfg if isinstance(cfg, dict) else vars(cfg)).update(dictionaries=digests)
    return state
