"""One model in different forms: both layouts of RoPE, this plugin's checkpoints and fairseq's own.

::

    fairseq-rope convert CHECKPOINT --to half --out FILE
    fairseq-rope convert CHECKPOINT --to plugin --out FILE
"""

from pathlib import Path

from ..positions.rope import LAYOUTS
from . import fairseq_transformer, rope_layout
from .configuration import model_configuration
from .files import load_checkpoint, save_checkpoint

FORMS = {
    **{layout: f"RoPE's layout {layout}" for layout in LAYOUTS},
    "plugin": "fairseq's own transformer as this plugin's model",
    "fairseq": "the way back",
}
"""Name of a form, to its description."""


def convert_file(path: Path, to: str, out: Path) -> str:
    """Writes the checkpoint ``path`` to ``out`` in the form ``to``, one of :data:`FORMS`; returns what it became.

    Raises:
        CheckpointError: the checkpoint cannot be loaded or written, or has no such form.
    """
    state = load_checkpoint(path)
    if to in LAYOUTS:
        converted = rope_layout.convert_checkpoint(state, to)
        became = f"in the layout {to}"
    else:
        converted = fairseq_transformer.convert_checkpoint(state, to)
        became = f"as {model_configuration(converted).arch}"
    save_checkpoint(converted, out)
    lost = "last_optimizer_state" in state and "last_optimizer_state" not in converted
    return f"{path} {became}" + (", without the optimizer's state" if lost else "")
