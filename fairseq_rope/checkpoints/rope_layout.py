"""Converts a RoPE checkpoint between the layouts ``interleaved`` (the paper's) and ``half``, without loss.

::

    python -m fairseq_rope.checkpoints.rope_layout CHECKPOINT --to half --out FILE
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from ..options import SIDES, position_options
from ..positions.rope import LAYOUTS, convert_layout
from .files import CheckpointError, load_checkpoint, save_checkpoint


def convert_checkpoint(state: Dict[str, Any], layout: str) -> Dict[str, Any]:
    """The same model in ``layout``, without the optimizer's state.

    Raises:
        CheckpointError: the model has no RoPE, or is in ``layout`` already.
    """
    cfg: Any = (state.get("cfg") or {}).get("model")
    sides = [side for side in SIDES if getattr(cfg, f"{side}_position", None) == "rope"]
    options = position_options(cfg, "rope")
    if not sides:
        raise CheckpointError("the model has no RoPE: there is no layout to convert")
    if options.layout == layout:
        raise CheckpointError(f"the model is in the layout {layout} already")
    model = state["model"]
    for side in sides:
        heads, width = getattr(cfg, f"{side}_attention_heads"), getattr(cfg, f"{side}_embed_dim")
        model = convert_layout(model, heads, options.dim or width // heads, layout, side)
    cfg.rope_layout = layout
    converted = {**state, "model": model}
    converted.pop("last_optimizer_state", None)
    return converted


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="rope_layout", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="the checkpoint to convert")
    parser.add_argument("--to", choices=LAYOUTS, required=True, help="the layout wanted")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    args = parser.parse_args(argv)
    try:
        save_checkpoint(convert_checkpoint(load_checkpoint(args.checkpoint), args.to), args.out)
    except CheckpointError as error:
        sys.exit(f"error: {error}")
    print(f"{args.out}: {args.checkpoint} in the layout {args.to}")


if __name__ == "__main__":
    main()
