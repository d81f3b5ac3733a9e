"""Exports a run's averaged checkpoint to CTranslate2.

::

    python -m fairseq_rope.export.command RUN OUT [--quantization int8]

OUT is a folder for ``ctranslate2.Translator(OUT)``; RUN is a model folder, or a checkpoint with its dictionaries
beside it.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence

from . import QUANTIZATIONS, export


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="export_ctranslate2", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="model folder of a run, or a checkpoint")
    parser.add_argument("out", type=Path, help="the folder to make")
    parser.add_argument("--quantization", help=f"{', '.join(QUANTIZATIONS)} (default: float32)")
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)
    try:
        export(args.run, args.out, args.quantization)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{args.out}: {args.run} for CTranslate2, {args.quantization or 'float32'}")


if __name__ == "__main__":
    main()
