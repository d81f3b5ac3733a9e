"""Translates raw text with a run's averaged checkpoint, one sentence a line: stdin to stdout.

In a terminal, or with --interactive, it answers each line before it reads the next; Ctrl-D ends it. Otherwise it reads
the whole input first, and shows a progress bar if the output is not on the screen. The model folder's prepare.json says
how to split text as in training (without that file: hyphens split, no vocabulary threshold).

Example: echo "The old king sees a dog." | scripts/translate.sh runs/demo/roformer_tiny/seed1
"""

import argparse
import itertools
import logging
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Callable, Iterator, List, Sequence, TypeVar

from tqdm import tqdm

from ..command import BEAM, LENPEN, Failure, Parser, as_failure, run, say, script_name, to_path

if TYPE_CHECKING:
    from .translator import Translator

ENGINES = ("auto", "fairseq", "ctranslate2")
CHUNK, BLOCKS = 200, 20  # sentences or blocks at a time
Item = TypeVar("Item")


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("run", type=to_path, help="model folder: output of scripts/train.sh and scripts/average.sh")
    parser.add_argument("--beam", type=BEAM, default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", type=LENPEN, default="0.6", help="length penalty (default: 0.6)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="program that translates: ctranslate2, which exports the model first, once per checkpoint; fairseq; or "
        "auto: ctranslate2 on a CPU, if it is installed and knows the position encoding (default)",
    )
    parser.add_argument("--quantization", help="number format for ctranslate2, such as int8 (default: float32)")
    parser.add_argument(
        "--interactive", action="store_true", help="answer each line before reading the next, as in a terminal"
    )
    parser.add_argument(
        "--cut", action="store_true", help="of lines that are too long for the model, translate the beginning"
    )
    text = "translate documents, with empty lines between them, in blocks as long as those of the training"
    parser.add_argument("--documents", action="store_true", help=text)
    args = parser.parse_args(argv)
    if args.documents and (args.interactive or sys.stdin.isatty()):
        parser.error("--documents reads the whole text first: give it on stdin, without --interactive")
    if args.quantization and args.engine == "fairseq":
        parser.error("--quantization is for --engine ctranslate2")
    if args.quantization:
        args.engine = "ctranslate2"
    logging.disable(logging.INFO)  # what fairseq says
    if args.interactive or sys.stdin.isatty():
        _answer(args)
    else:
        _translate(args, _read_all())


def _load(args: argparse.Namespace) -> "Translator":
    from .translator import Translator  # imports fairseq

    checkpoint = args.run / "checkpoint.pt"
    if not checkpoint.is_file():
        raise Failure(f"{checkpoint}: no such checkpoint: run scripts/average.sh --run {args.run} --data DATA first")
    with as_failure():
        return Translator(
            args.run,
            args.beam,
            float(args.lenpen),
            engine=args.engine,
            quantization=args.quantization,
            documents=args.documents,
        )


def _answer(args: argparse.Namespace) -> None:
    """Translates line by line. A line that cannot be translated is a message on stderr and an empty answer."""
    terminal = sys.stdin.isatty()
    if terminal:
        say("loading the model")
    translator = _load(args)
    if terminal:
        say("type a sentence and press Enter; Ctrl-D ends")
        wait = _line_or_signal()
    try:
        for number in itertools.count(1):
            if terminal:
                print("> ", end="", file=sys.stderr, flush=True)
                wait()
            line = sys.stdin.buffer.readline()
            if not line:
                return
            answer = ""
            try:
                sources = translator.split([_decode(line).removesuffix("\n")], number, args.cut)
                (answer,) = translator.search(sources)
                problem = f"line {number}: its translation {_may_be_cut(translator)}" if translator.cut else ""
            except Failure as error:
                problem = f"line {number}: {error}"
            except ValueError as error:
                problem = str(error)
            if problem:
                print(f"{script_name()}: {problem}", file=sys.stderr, flush=True)
            print(answer, flush=True)
    finally:
        if terminal:
            print(file=sys.stderr)  # the shell's prompt begins a line of its own


def _line_or_signal() -> Callable[[], object]:
    """What waits for a line, or for a signal: Python's reading overlooks one that comes just before it begins."""
    signals, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    return lambda: select.select([sys.stdin, signals], [], [])


def _decode(text: bytes) -> str:
    """Raises Failure if the text is not UTF-8."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"the input is not UTF-8 (byte {error.start}): convert it with iconv") from None


def _read_all() -> List[str]:
    text = _decode(sys.stdin.buffer.read())
    return text.removesuffix("\n").split("\n") if text else []


def _translate(args: argparse.Namespace, lines: Sequence[str]) -> None:
    """Translates all lines.

    Raises:
        Failure: a line is longer than the model accepts; nothing is translated.
    """
    translator = _load(args)
    sources: List[str] = []
    for chunk in _chunks(lines, "split"):
        with as_failure():
            sources += translator.split(chunk, len(sources) + 1, args.cut)
    if args.documents:
        return _translate_documents(translator, sources)
    cut = 0
    for chunk in _chunks(sources, "translate"):
        for line in translator.search(chunk):
            print(line, flush=True)
        cut += translator.cut
    if cut:
        say(f"{cut} of {len(lines)} translations {_may_be_cut(translator)}")


def _translate_documents(translator: "Translator", sources: Sequence[str]) -> None:
    """Translates documents; each line of the output is the translation of that line of the input."""
    blocks, wrong, cut, written = translator.blocks(sources), 0, 0, 0
    for chunk in _chunks(blocks, "translate", BLOCKS):
        translations, count = translator.search_blocks([[sources[i] for i in block] for block in chunk])
        wrong, cut = wrong + count, cut + translator.cut
        for i, line in zip(itertools.chain(*chunk), itertools.chain(*translations)):
            print("\n" * (i - written) + line, flush=True)
            written = i + 1
    print("\n" * (len(sources) - written), end="", flush=True)
    if wrong:
        what = "came back with another number of segments, or an empty one"
        say(f"{wrong} of {len(blocks)} blocks {what}: translated one by one")
    if cut:
        say(f"{cut} translations {_may_be_cut(translator)}")


def _chunks(items: Sequence[Item], label: str, size: int = CHUNK) -> Iterator[Sequence[Item]]:
    """A part of the items at a time, under a progress bar that is not on one screen with the translations."""
    hidden = sys.stdout.isatty() or not sys.stderr.isatty()
    with tqdm(total=len(items), unit=" sentences" if size == CHUNK else " blocks", desc=label, disable=hidden) as bar:
        for start in range(0, len(items), size):
            yield items[start : start + size]
            bar.update(len(items[start : start + size]))


def _may_be_cut(translator: "Translator") -> str:
    return f"may be cut, as the search ends after {translator.engine.max_length} tokens: split long sentences"


if __name__ == "__main__":
    run(main)
