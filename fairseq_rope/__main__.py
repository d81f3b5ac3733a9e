"""The command ``fairseq-rope``, also ``python -m fairseq_rope``.

::

    fairseq-rope                                                 five things to do
    fairseq-rope info                                            the folder for --user-dir, encodings, architectures
    fairseq-rope info --user-dir                                 that folder alone
    fairseq-rope options                                         the flags of each encoding, for fairseq-train
    fairseq-rope average FOLDER --last 5 --out FILE              the mean of a run's last checkpoints
    fairseq-rope convert CHECKPOINT --to half --out FILE         the same model in another form
    fairseq-rope convert CHECKPOINT --position rope --out FILE   a model with other positions, to train on
    fairseq-rope export RUN OUT --quantization int8              a folder for CTranslate2
    fairseq-rope plot bias RUN --side decoder --out FILE.png     what positions contribute

It exits with status 2 if it is called wrongly and with status 1 if it fails. It gives the reason in one line, and
leaves no half-written file.
"""

import argparse
import logging
import os
import signal
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from . import info
from .arguments import PROGRAM, Parser, png_file, whole_number
from .checkpoints.average import NUMBERED_BY, average_checkpoints, find_checkpoints
from .checkpoints.convert import FORMS, change_model, convert_file
from .checkpoints.files import save_checkpoint
from .checkpoints.positions import LIMITS
from .export import QUANTIZATIONS, export
from .inspection import pictures
from .options import SIDES, add_position_args
from .packages import package
from .positions import POSITIONS

LAST = 5  # checkpoints to average

WELCOME = """fairseq_rope: position encodings for translation and language models with fairseq

see what there is            fairseq-rope info; fairseq-rope options
train a model                fairseq-train DATA --user-dir "$(fairseq-rope info --user-dir)" --arch roformer_base ...
change a trained model       fairseq-rope convert CHECKPOINT --position rope --out FILE
translate fast without it    fairseq-rope export RUN OUT --quantization int8
look at what positions do    fairseq-rope plot bias RUN --out FILE.png

fairseq-rope COMMAND --help has the options. Scripts that prepare, train, average, score and compare are in a clone."""


def _add_info(commands: Any) -> None:
    parser = commands.add_parser("info", help="print the --user-dir folder, encodings, architectures")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--user-dir", action="store_true", help="print only the folder for fairseq's --user-dir")
    size: Any = dict(type=whole_number(info.SMALLEST_VOCABULARY), default=info.VOCABULARY, metavar="N")
    shown.add_argument("--vocabulary", help="parameters with a vocabulary of N types (default: %(default)s)", **size)
    parser.set_defaults(run=lambda args: str(info.USER_DIR) if args.user_dir else info.overview(args.vocabulary))
    parser = commands.add_parser("options", help="print the flags of each encoding, for fairseq-train")
    parser.set_defaults(run=lambda args: info.options())


def _add_average(commands: Any) -> None:
    parser = commands.add_parser("average", help="average several checkpoints of one run")
    inputs = parser.add_mutually_exclusive_group(required=True)
    inputs.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder with the checkpoints of a run")
    inputs.add_argument("--inputs", nargs="+", type=Path, metavar="FILE", help="average these files instead")
    parser.add_argument("--last", type=whole_number(1), metavar="N", help=f"average the last N (default: {LAST})")
    parser.add_argument("--by", choices=sorted(NUMBERED_BY), help="how checkpoints are numbered (default: updates)")
    parser.add_argument(
        "--upper", type=whole_number(0), metavar="N", help="ignore those of more updates or epochs than N"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    parser.set_defaults(run=_average, usage_error=parser.error)


def _average(args: argparse.Namespace) -> str:
    if args.inputs and (args.last is not None or args.by or args.upper is not None):
        args.usage_error("--last, --by and --upper choose among the files of a FOLDER: leave them out with --inputs")
    paths = args.inputs or find_checkpoints(args.folder, args.last or LAST, args.by or "updates", args.upper)
    save_checkpoint(average_checkpoints(paths), args.out)
    return f"{args.out}: average of {', '.join(str(path) if args.inputs else path.name for path in paths)}"


def _add_convert(commands: Any) -> None:
    parser = commands.add_parser("convert", help="convert a model to another form, or give it other positions")
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the checkpoint, or folder, to convert")
    parser.add_argument("--to", choices=FORMS, help="; ".join(f"{form}: {what}" for form, what in FORMS.items()))
    parser.add_argument("--position", choices=sorted(POSITIONS), help="position encoding of all sides from now on")
    positions = parser.add_argument_group("new positions")
    add_position_args(positions)
    for limit in LIMITS:
        what = "rows of tables with a row for each position (default: as before)"
        positions.add_argument(f"--{limit.replace('_', '-')}", type=whole_number(1), metavar="N", help=what)
    apart = "neighbours are G positions apart (default: as before)"
    positions.add_argument("--position-gap", type=whole_number(1), metavar="G", help=apart)
    positions.add_argument("--seed", type=whole_number(0), metavar="N", help="of new parameters (default: 1)")
    both = "the dictionary with further types at its end; of source and target, if they have one each"
    parser.add_argument("--dictionary", type=Path, nargs="+", default=[], metavar="FILE", help=both)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file or folder to write")
    parser.set_defaults(run=_convert, usage_error=parser.error)


def _convert(args: argparse.Namespace) -> str:
    others = ("checkpoint", "to", "seed", "dictionary", "out", "run", "usage_error")
    given = {name: value for name, value in vars(args).items() if value is not None and value is not False}
    fields = {name: value for name, value in given.items() if name not in others}
    if bool(args.to) == bool(fields or args.dictionary):
        args.usage_error("give either --to, or --position and the like, or --dictionary")
    if len(args.dictionary) > 2:
        args.usage_error("--dictionary takes one file, or that of the source and that of the target")
    if args.to:
        became = convert_file(args.checkpoint, args.to, args.out)
    else:
        seed = 1 if args.seed is None else args.seed
        became = change_model(args.checkpoint, fields, seed, args.dictionary, args.out)
    return f"{args.out}: {became}"


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="make a folder for CTranslate2")
    parser.add_argument("folder", type=Path, metavar="RUN", help="model folder, or a checkpoint with dictionaries")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to make")
    parser.add_argument("--quantization", choices=QUANTIZATIONS, help="number format (default: float32)")
    parser.set_defaults(run=_export)


def _export(args: argparse.Namespace) -> str:
    lost = export(args.folder, args.out, args.quantization)
    return f"{args.out}: {args.folder} for CTranslate2, {args.quantization or 'float32'}" + (
        f"; {lost}" if lost else ""
    )


def _add_plot(commands: Any) -> None:
    plot = commands.add_parser("plot", help="draw what positions contribute")
    kinds = plot.add_subparsers(dest="kind", required=True, metavar="decay|tupe|bias")
    count = whole_number(1)
    decay = kinds.add_parser("decay", help="RoPE's long-term decay (RoFormer, Fig. 2)")
    what = "channels of a head, one line each (default: 128)"
    decay.add_argument("--rope-dim", type=whole_number(2), nargs="+", default=[128], metavar="N", help=what)
    what = "bases of the frequencies, one line each (default: 10000)"
    decay.add_argument("--rope-base", type=float, nargs="+", default=[10000.0], metavar="X", help=what)
    decay.add_argument("--max-distance", type=count, default=250, metavar="N", help="largest distance (default: 250)")
    tupe = kinds.add_parser("tupe", help="correlations of positions that TUPE learned (TUPE, Fig. 5)")
    bias = kinds.add_parser("bias", help="any encoding's effective position bias, measured on random words")
    for kind, length in ((tupe, 64), (bias, 32)):
        kind.add_argument("folder", type=Path, metavar="RUN", help="model folder of a run")
        kind.add_argument("--side", choices=SIDES, help="side of the model (default: encoder, if there is one)")
        kind.add_argument("--length", type=count, default=length, metavar="N", help=f"positions (default: {length})")
    bias.add_argument("--sentences", type=count, default=256, metavar="N", help="how many to average (default: 256)")
    bias.add_argument("--seed", type=whole_number(0), default=1, metavar="N", help="random seed (default: 1)")
    bias.add_argument("--by-distance", action="store_true", help="draw means by distance j - i instead of heat maps")
    for kind in (decay, tupe, bias):
        kind.add_argument("--out", type=png_file, required=True, metavar="FILE.png", help="the picture to write")
        kind.set_defaults(run=_plot)


def _plot(args: argparse.Namespace) -> str:
    package("matplotlib")
    if args.kind == "decay":
        figure = pictures.draw_decay(args.rope_dim, args.rope_base, args.max_distance)
    elif args.kind == "tupe":
        figure = pictures.draw_tupe(args.folder, args.side, args.length)
    else:
        numbers = (args.length, args.sentences, args.seed)
        figure = pictures.draw_bias(args.folder, args.side, *numbers, by_distance=args.by_distance)
    pictures.save_picture(figure, args.out)
    return f"{args.out}: {args.kind}"


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Position encodings for machine translation, a plugin for fairseq.")
    parser.set_defaults(run=lambda args: WELCOME)
    commands = parser.add_subparsers(metavar="COMMAND")
    for add in (_add_info, _add_average, _add_convert, _add_export, _add_plot):
        add(commands)
    return parser


@contextmanager
def _quietly() -> Iterator[None]:
    """Keeps the warnings and reports of other packages off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit status.

    Raises:
        SystemExit: of argparse, after ``--help`` or a wrong call.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            args = _parser().parse_args(words)
            with _quietly():
                print(args.run(args))
        finally:
            if sys.stdout:  # as a daemon may have closed it
                sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        if error.filename is None:
            _drop_output()
        return _failed(f"{error.filename or 'the output'}: {error.strerror or error}")
    except ValueError as error:
        return _failed(str(error))
    except (MemoryError, RuntimeError) as error:  # PyTorch has no class of its own for it
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        return _failed("not enough memory: choose smaller numbers")
    return 0


def _failed(message: str) -> int:
    print(f"{PROGRAM}: error: {' '.join(message.splitlines())}", file=sys.stderr)
    return 1


def _drop_output() -> None:
    """Discards pending output, which Python would try to write again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
