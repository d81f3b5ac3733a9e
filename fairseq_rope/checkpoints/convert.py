"""One model in different forms: both layouts of RoPE, this plugin's checkpoints, fairseq's own, Hugging Face's folders.

::

    fairseq-rope convert CHECKPOINT --to half --out FILE
    fairseq-rope convert CHECKPOINT --to plugin --out FILE
    fairseq-rope convert FOLDER --to plugin --out RUN
    fairseq-rope convert RUN --to hugging-face --out FOLDER
"""

from pathlib import Path

from ..positions.rope import LAYOUTS
from . import fairseq_transformer, hugging_face, rope_layout
from .configuration import model_configuration
from .files import CheckpointError, load_checkpoint, save_checkpoint
from .model_folder import CHECKPOINT

FORMS = {
    **{layout: f"RoPE's layout {layout}" for layout in LAYOUTS},
    "plugin": "fairseq's own transformer, or a Hugging Face folder of RoFormer or BERT, as this plugin's model",
    "fairseq": "the way back",
    "hugging-face": "a masked language model as a folder for Hugging Face's transformers",
}
"""Name of a form, to its description."""


def convert_file(path: Path, to: str, out: Path) -> str:
    """Writes the checkpoint ``path`` to ``out`` in the form ``to``, one of :data:`FORMS`; returns what it became.

    ``path`` is a model folder or its checkpoint, or a folder of Hugging Face's; ``out`` is a folder if one side is.

    Raises:
        CheckpointError: the checkpoint cannot be loaded or written, or has no such form.
    """
    if to == "hugging-face":
        return hugging_face.export_folder(path, out)
    checkpoint = path / CHECKPOINT if (path / CHECKPOINT).is_file() else path
    if to == "plugin" and checkpoint.is_dir():
        return hugging_face.import_folder(path, out)
    state = load_checkpoint(checkpoint)
    if "shard_metadata" in state:
        raise CheckpointError(f"{checkpoint}: a part of a sharded checkpoint: join the parts first")
    if to in LAYOUTS:
        converted = rope_layout.convert_checkpoint(state, to)
        became = f"in the layout {to}"
    else:
        converted = fairseq_transformer.convert_checkpoint(state, to)
        became = f"as {model_configuration(converted).arch}"
    save_checkpoint(converted, out)
    lost = "last_optimizer_state" in state and "last_optimizer_state" not in converted
    return f"{path} {became}" + (", without the optimizer's state" if lost else "")
