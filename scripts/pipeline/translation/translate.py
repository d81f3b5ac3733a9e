"""Translates raw text with a run's averaged checkpoint, one sentence a line: stdin to stdout.

In a terminal, or with --interactive, it answers each line before it reads the next; Ctrl-D ends it. Otherwise it reads
the whole input first, and shows a progress bar if the output is not on the screen. The model folder's prepare.json says
how to split text as in training (without that file: hyphens split, no vocabulary threshold).

Example: echo "The old king sees a dog." | scripts/translate.sh runs/demo/roformer_tiny/seed1
"""

import argparse
import itertools
import logging
import sys
from typing import TYPE_CHECKING, Iterator, List, Sequence, TypeVar

from tqdm import tqdm

from ..command import BEAM, LENPEN, Failure, Parser, as_failure, say, script_name, to_path
from ..languages import language

if TYPE_CHECKING:
    from .translator import Translator

CHUNK, BLOCKS = 200, 20  # sentences or blocks at a time
Item = TypeVar("Item")


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("run", type=to_path, help="model folder: output of scripts/train.sh and scripts/average.sh")
    parser.add_argument("--beam", type=BEAM, default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", type=LENPEN, default="0.6", help="length penalty (default: 0.6)")
    text = (
        "program that translates: ctranslate2, which exports the model first, once per checkpoint; fairseq; or auto: "
        "fairseq for documents, else ctranslate2 on a CPU, if it is installed and knows the encoding (default)"
    )
    parser.add_argument("--engine", choices=("auto", "fairseq", "ctranslate2"), default="auto", help=text)
    parser.add_argument("--quantization", help="number format for ctranslate2, such as int8 (default: float32)")
    text = "answer each line before reading the next, as in a terminal"
    parser.add_argument("--interactive", action="store_true", help=text)
    text = "of lines that are too long for the model, translate the beginning"
    parser.add_argument("--cut", action="store_true", help=text)
    for side in ("source", "target"):
        text = f"{side} language, of a model of several (default: the only one of its training)"
        parser.add_argument(f"--{side}-lang", type=language, metavar="LANG", help=text)
    text = "translate documents, with empty lines between them, in blocks as long as those of the training"
    parser.add_argument("--documents", action="store_true", help=text)
    args = parser.parse_args(argv)
    args.interactive |= sys.stdin.isatty()
    if args.documents and args.interactive:
        parser.error("--documents reads the whole text first: give it on stdin, without --interactive")
    if args.quantization and args.engine == "fairseq":
        parser.error("--quantization is for --engine ctranslate2")
    logging.disable(logging.INFO)  # what fairseq says
    if args.interactive:
        return _answer(args)
    text = _decode(sys.stdin.buffer.read())
    _translate(args, text.removesuffix("\n").split("\n") if text else [])


def _load(args: argparse.Namespace) -> "Translator":
    from .engines import Search  # these import fairseq
    from .translator import Translator

    checkpoint = args.run / "checkpoint.pt"
    if not checkpoint.is_file():
        raise Failure(f"{checkpoint}: no such checkpoint: run scripts/average.sh --run {args.run} --data DATA first")
    engine = "ctranslate2" if args.quantization else args.engine
    with as_failure():
        search, languages = Search(args.beam, float(args.lenpen)), (args.source_lang, args.target_lang)
        return Translator(args.run, search, engine, args.quantization, args.documents, *languages)


def _answer(args: argparse.Namespace) -> None:
    """Translates line by line. A line that cannot be translated is a message on stderr and an empty answer."""
    terminal = sys.stdin.isatty()
    if terminal:
        say("loading the model")
    translator = _load(args)
    if terminal:
        say("type a sentence and press Enter; Ctrl-D ends")
    try:
        for number in itertools.count(1):
            if terminal:
                print("> ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.buffer.readline()
            if not line:
                return
            answer = ""
            try:
                text = _decode(line, f"line {number}: the input").removesuffix("\n")
                (answer,) = translator.search(translator.split([text], number, args.cut))
                problem = f"line {number}: its translation {_may_be_cut(translator)}" if translator.cut else ""
            except Failure as error:
                problem = str(error)
            if problem:
                print(f"{script_name()}: {problem}", file=sys.stderr, flush=True)
            print(answer, flush=True)
    finally:
        if terminal:
            print(file=sys.stderr)  # the shell's prompt begins a line of its own


def _decode(text: bytes, name: str = "the input") -> str:
    """Raises Failure if the text is not UTF-8."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{name} is not UTF-8 (byte {error.start}): convert it with iconv") from None


def _translate(args: argparse.Namespace, lines: Sequence[str]) -> None:
    """Translates all lines."""
    translator = _load(args)
    sources: List[str] = []
    for chunk in _chunks(lines, "split"):
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
        what = "came back cut, with another number of segments, or an empty one"
        say(f"{wrong} of {len(blocks)} blocks {what}: translated by segments")
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
