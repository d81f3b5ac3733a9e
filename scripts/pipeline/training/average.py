"""Averages the last checkpoints of a run and makes the run a complete model folder.

RUN/checkpoint.pt is the average of as many checkpoints as the recipe says, else of the last five (Vaswani et al. 2017,
section 6.1). The command also copies into RUN the BPE codes or the model of SentencePiece, the dictionaries, and
prepare.json, which says how to split text.

Example: scripts/average.sh --run /tmp/run --data /tmp/demo
"""

from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..command import Failure, Parser, as_failure, run, say, to_path, whole_number
from ..files import copy, read_shaped, sha256
from ..lock import locked
from ..prepared import NAME, Prepared, read_prepared
from ..recipes import Recipe
from ..settings import check_data, is_unfinished
from ..shape import DIGITS, TEXT
from ..steps import Steps, read_stamp


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("--run", type=to_path, required=True, help="output of scripts/train.sh")
    parser.add_argument("--data", type=to_path, required=True, help="output of scripts/prepare.sh or prepare_text.sh")
    parser.add_argument(
        "--last", type=whole_number(1), metavar="N", help="average the last N (default: as the recipe says, else 5)"
    )
    parser.add_argument(
        "--upper", type=whole_number(0), metavar="N", help="ignore checkpoints of more than N updates (or epochs)"
    )
    parser.add_argument("--by", choices=("updates", "epochs"), help="kind of checkpoint (default: updates)")
    parser.add_argument(
        "--inputs", nargs="+", action="extend", metavar="FILE", help="average these files instead of the last ones"
    )
    args = parser.parse_args(argv)
    if args.inputs and (args.last or args.upper is not None or args.by):
        parser.error("--inputs names the checkpoints: leave out --last, --upper and --by")
    folder = args.run / "checkpoints"
    if not folder.is_dir():
        raise Failure(f"{args.run} has no checkpoints: run scripts/train.sh --out {args.run} first")
    if not (args.data / NAME).is_file():
        raise Failure(f"{args.data} has no {NAME}: run scripts/prepare.sh or prepare_text.sh --out {args.data} first")
    check_data(args.run, args.data)
    if not args.inputs and is_unfinished(args.run):
        say(f"{args.run} is not trained to its end: this is the model so far")
    with locked(args.run):
        paths = _named(folder, args.inputs or [])
        if not paths:
            paths = _last(folder, args.last or _recorded(args.run), args.by or "updates", args.upper)
        average(args.run, args.data, paths)


def _recorded(run: Path) -> int:
    """How many checkpoints the recipe of a run averages; the default if its record does not say."""
    record, default = run / "run.json", Recipe("none").average
    known = read_shaped(record, {"average?": DIGITS, "recipe?": TEXT}, "remove it") if record.is_file() else {}
    if not known.get("average") and known.get("recipe", "none") != "none":  # as earlier versions left it
        say(f"{record} does not say how many checkpoints its recipe averages: these are the last {default}; see --last")
    return int(known.get("average") or default)


def _named(folder: Path, words: Sequence[str]) -> List[Path]:
    """The files that ``--inputs`` names; a word may have several. It tells the user of those from elsewhere.

    Raises:
        Failure: no file is named, one is missing, or one checkpoint is there twice.
    """
    paths = [Path(name) for word in words for name in ([word] if Path(word).is_file() else word.split())]
    if words and not paths:
        raise Failure("--inputs names no file")
    seen: Dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            raise Failure(f"{path}: no such checkpoint")
        if other := seen.get(digest := sha256(path)):
            raise Failure(f"{path} and {other} are the same checkpoint: name it once")
        seen[digest] = path
        if path.resolve().parent != folder.resolve():
            say(f"{path} is not in {folder}: is it of this training?")
    return paths


def _last(folder: Path, last: int, by: str, upper: Any) -> List[Path]:
    from fairseq_rope.checkpoints.average import find_checkpoints  # imports fairseq

    with as_failure():
        return find_checkpoints(folder, last, by, upper)


def average(run: Path, data: Path, paths: Sequence[Path]) -> None:
    """Makes a run a model folder with the average of ``paths``, unless it is one already.

    Raises:
        Failure: a checkpoint cannot be used, or a file of the data is not what was prepared.
    """
    steps = Steps(run)
    for path in paths:
        steps.setting(f"average {path.name} {sha256(path)}")
    prepared = read_prepared(data, f"prepare {data} again")
    for name in prepared.split_by:
        if not (data / name).is_file():
            raise Failure(f"{data} has no {name}: {_again(prepared, data)}")
    for name in prepared.split_by[:1]:
        steps.setting(f"{prepared.subwords} {sha256(data / name)}")
    made, before = run / "checkpoint.pt", read_stamp(run, "average").get("sha256")
    if before and made.is_file() and sha256(made) != before:
        say(f"{made} is damaged, or another one: it is made again")
        made.unlink()
    steps.step("average", [made.name], lambda: _average(paths, made))
    _copy_text_processing(run, data, prepared)


def _again(prepared: Prepared, data: Path) -> str:
    return f"run scripts/{'prepare_text.sh' if prepared.is_text else 'prepare.sh'} --out {data} again"


def _average(paths: Sequence[Path], out: Path) -> Dict[str, Any]:
    from fairseq_rope.checkpoints.average import average_checkpoints  # imports fairseq
    from fairseq_rope.checkpoints.files import save_checkpoint

    with as_failure():
        save_checkpoint(average_checkpoints(paths), out)
    return {"averaged": len(paths), "sha256": sha256(out)}


def _copy_text_processing(run: Path, data: Path, prepared: Prepared) -> None:
    """Copies the files that say how text is split, unless the run has them.

    Raises:
        Failure: a file is not as it was prepared.
    """
    remedy = _again(prepared, data)
    for file in (*(data / name for name in (NAME, *prepared.split_by)), *data.glob("bin/dict*.txt")):
        prepared.check([file], remedy)
        copied = run / file.name
        if not copied.is_file() or sha256(copied) != sha256(file):
            copy(file, copied)


if __name__ == "__main__":
    run(main)
