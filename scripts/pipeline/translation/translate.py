"""Translates raw text with a run's averaged checkpoint, one sentence a line: stdin to stdout, with a progress bar.

The model folder's prepare.json says how to split text as in training (without that file: hyphens split, no vocabulary
threshold).

Example: echo "The old king sees a dog." | scripts/translate.sh runs/demo/roformer_tiny/seed1
"""

import logging
import sys
from pathlib import Path
from typing import Sequence

from tqdm import tqdm

from ..command import Failure, Parser, run, whole_number

ENGINES = ("fairseq", "ctranslate2")
CHUNK = 200  # sentences


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("run", type=Path, help="model folder: output of scripts/train.sh and scripts/average.sh")
    parser.add_argument("--beam", type=whole_number(1), default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", type=float, default=0.6, help="length penalty (default: 0.6)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="fairseq",
        help="program that translates (default: fairseq); ctranslate2 exports the model first, once per checkpoint",
    )
    parser.add_argument("--quantization", help="number format for ctranslate2, such as int8 (default: float32)")
    args = parser.parse_args(argv)
    if args.quantization and args.engine != "ctranslate2":
        parser.error("--quantization is for --engine ctranslate2")
    logging.disable(logging.INFO)  # what fairseq says
    from .translator import Translator

    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"the input is not UTF-8 (byte {error.start}): convert it with iconv") from None
    try:
        options = {"engine": args.engine, "quantization": args.quantization}
        translator = Translator(args.run, args.beam, args.lenpen, **options)
    except ValueError as error:
        raise Failure(str(error)) from None
    lines = text.removesuffix("\n").split("\n") if text else []
    bar = tqdm(total=len(lines), unit=" sentences", desc="translate", disable=None if sys.stderr.isatty() else True)
    for start in range(0, len(lines), CHUNK):
        chunk = lines[start : start + CHUNK]
        try:
            translations = translator.translate(chunk)
        except ValueError as error:
            raise Failure(f"in the sentences from line {start + 1} on, {error}") from None
        for line in translations:
            print(line, flush=True)
        bar.update(len(chunk))
    bar.close()


if __name__ == "__main__":
    run(main)
