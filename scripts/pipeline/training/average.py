"""Averages the last checkpoints of a run and makes the run a complete model folder.

RUN/checkpoint.pt is the average of as many checkpoints as the recipe says, else of the last five (Vaswani et al. 2017,
section 6.1). The command also copies into RUN the BPE codes or the model of SentencePiece, the dictionaries, and
prepare.json, which says how to split text, and writes README.md, the card of the model: data, training, tests, limits.

Example: scripts/average.sh --run /tmp/run --data /tmp/demo
"""

from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..command import Failure, Parser, as_failure, say, to_path, whole_number
from ..files import copy, remove_leftovers, sha256, write_text
from ..lock import locked
from ..prepared import NAME, read_prepared
from ..provenance import read_record
from ..recipes import Score
from ..settings import check_data, is_unfinished
from ..steps import Steps, read_stamp
from .card import model_card


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
        if args.inputs:
            paths = _named(folder, args.inputs)
        else:
            from fairseq_rope.checkpoints.average import find_checkpoints  # imports fairseq

            count = args.last or (read_record(args.run).average or Score().average)
            with as_failure():
                paths = find_checkpoints(folder, count, args.by or "updates", args.upper)
        average(args.run, args.data, paths)


def _named(folder: Path, words: Sequence[str]) -> List[Path]:
    """The files that ``--inputs`` names; a word may have several. It tells the user of those from elsewhere.

    Raises:
        Failure: no file is named, one is missing, or one checkpoint is there twice.
    """
    paths = [Path(name) for word in words for name in ([word] if Path(word).is_file() else word.split())]
    if not paths:
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


def average(run: Path, data: Path, paths: Sequence[Path]) -> None:
    """Makes a run, whose lock this process holds, a model folder with the average of ``paths``, unless it is one.

    Raises:
        Failure: a checkpoint cannot be used, or a file of the data is not what was prepared.
    """
    made, before = run / "checkpoint.pt", read_stamp(run, "average").get("sha256")
    prepared = read_prepared(data, f"prepare {data} again")
    again = f"run scripts/{'prepare_text.sh' if prepared.is_text else 'prepare.sh'} --out {data} again"
    steps = Steps(run)
    for path in paths:
        steps.setting(f"average {path.name} {sha256(path)}")
    for name in prepared.split_by:
        if not (data / name).is_file():
            raise Failure(f"{data} has no {name}: {again}")
    for name in prepared.split_by[:1]:
        steps.setting(f"{prepared.subwords} {sha256(data / name)}")
    remove_leftovers(run, "checkpoint.pt.")
    if before and made.is_file() and sha256(made) != before:
        say(f"{made} is damaged, or another one: it is made again")
        made.unlink()

    def work() -> Dict[str, Any]:
        from fairseq_rope.checkpoints.average import average_checkpoints  # imports fairseq
        from fairseq_rope.checkpoints.files import save_checkpoint

        with as_failure():
            save_checkpoint(average_checkpoints(paths), made)
        return {"averaged": len(paths), "sha256": sha256(made)}

    steps.step("average", [made.name], work)
    for file in (*(data / name for name in (NAME, *prepared.split_by)), *data.glob("bin/dict*.txt")):
        prepared.check([file], again)
        copied = run / file.name
        if not copied.is_file() or sha256(copied) != sha256(file):
            copy(file, copied)
    write_text(run / "README.md", model_card(run, len(paths)))
