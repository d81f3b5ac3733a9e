"""Averages the last checkpoints of a run and makes the run a complete model folder.

RUN/checkpoint.pt is the average of as many checkpoints as the recipe says, else of the last five (Vaswani et al. 2017,
section 6.1). The command also copies into RUN the BPE codes or the model of SentencePiece, the dictionaries, and
prepare.json, which says how to split text, and writes README.md, the card of the model: data, training, tests, limits.

Example: scripts/average.sh --run /tmp/run --data /tmp/demo
"""

import shlex
from pathlib import Path
from typing import Any, Dict, Sequence

from ..command import Failure, Parser, as_failure, say, to_path, whole_number
from ..files import copy, read_json, remove_leftovers, sha256, write_text
from ..lock import locked
from ..prepared import NAME, read_prepared
from ..provenance import read_record
from ..recipes import Score
from ..settings import check_data, is_unfinished
from ..steps import Steps, read_stamp
from ..text.segments import block_tokens
from .checkpoints import by_updates

DATA = ("documents", "pairs", "lines")
"""Entries of ``prepare.json`` that say how much text there is in each set."""


def main(argv: Sequence[str]) -> None:
    parser = Parser(__doc__)
    parser.add_argument("--run", type=to_path, required=True, help="output of scripts/train.sh")
    parser.add_argument("--data", type=to_path, required=True, help="output of scripts/prepare.sh or prepare_text.sh")
    text = "average the last N (default: as the recipe says, else 5)"
    parser.add_argument("--last", type=whole_number(1), metavar="N", help=text)
    args = parser.parse_args(argv)
    folder = args.run / "checkpoints"
    if not folder.is_dir():
        raise Failure(f"{args.run} has no checkpoints: run scripts/train.sh --out {args.run} first")
    check_data(args.run, args.data)
    if is_unfinished(args.run):
        say(f"{args.run} is not trained to its end, or was copied without hidden files: this is the model so far")
    with locked(args.run):
        from fairseq_rope.checkpoints.average import find_checkpoints  # imports fairseq

        count = args.last or read_record(args.run).average or Score().average
        if not any(folder.glob("*.pt")) and _is_average_of(args.run, count):
            return say("average: done before, of checkpoints that were removed")
        if not by_updates(folder) and not (args.run / "checkpoint.pt").is_file():
            raise Failure(f"{args.run} has no checkpoint yet: run scripts/train.sh --out {args.run} again")
        with as_failure():
            paths = find_checkpoints(folder, count)
        average(args.run, args.data, paths)


def _is_average_of(run: Path, count: int) -> bool:
    """Whether the model of a run is the average of so many checkpoints, as this command left it."""
    made, stamp = run / "checkpoint.pt", read_stamp(run, "average")
    return stamp.get("averaged") == count and made.is_file() and sha256(made) == stamp.get("sha256")


def average(run: Path, data: Path, paths: Sequence[Path]) -> None:
    """Makes a run, whose lock this process holds, a model folder with the average of ``paths``, unless it is one."""
    made, before = run / "checkpoint.pt", read_stamp(run, "average").get("sha256")
    prepared = read_prepared(data, f"prepare {data} again")
    again = f"run scripts/{'prepare_text.sh' if prepared.is_text else 'prepare.sh'} --out {data} again"
    steps = Steps(run)
    for path in paths:
        steps.setting(f"average {path.name} {sha256(path)}")
    for name in prepared.split_by[:1]:
        steps.setting(f"{prepared.subwords} {sha256(data / name)}")
    remove_leftovers(run, "checkpoint.pt.")
    if before and made.is_file() and sha256(made) != before:
        say(f"{made} is damaged, or another one: it is made again")
        made.unlink()

    def work() -> Dict[str, Any]:
        from fairseq_rope.checkpoints.average import average_checkpoints  # imports fairseq
        from fairseq_rope.checkpoints.files import save_checkpoint

        updates = [number for number, path in by_updates(paths[0].parent) if path in paths]
        late = sum(2 * number >= updates[0] for number in updates)
        if late < len(updates):
            text = f"the average begins with update {updates[-1]} of {updates[0]}, and early checkpoints can spoil it"
            say(f"{text}: `scripts/average.sh --last {late}` leaves them out")
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


def model_card(run: Path, checkpoints: int) -> str:
    """The text of ``RUN/README.md``, in a model folder that is complete but for this file."""
    record, prepared = read_record(run), read_prepared(run, "run scripts/average.sh again")
    info: Dict[str, Any] = read_json(run / NAME)
    languages = prepared.source if prepared.is_text else f"{prepared.source} to {prepared.target}"
    amounts = [f"{info[unit]['train']:,} {unit}" for unit in DATA if "train" in info.get(unit, {})]
    if cleaned := info.get("cleaned"):
        amounts.append(f"{cleaned['kept']:,} after cleaning")
    types = f"; {info['vocabulary']:,} types" if "vocabulary" in info else ""
    name = shlex.quote(run.name)
    use = f"scripts/evaluate.sh --run {name} --data DATA"
    if not prepared.is_text:
        documents = " --documents" if block_tokens(run, prepared) else ""
        use = f'echo "..." | scripts/translate.sh {name}{documents}'
    versions = ", ".join(f"{package} {version}" for package, version in record.versions.items())
    lines = [
        f"# {record.arch}, {languages}",
        "",
        f"Use: `{use}`",
        "",
        f"- Data: {', '.join(amounts)} for training; {prepared.subwords}{types}",
        f"- Training: the average of {checkpoints} checkpoints; `{record.flags}`",
        *([f"- Began with: {record.start}"] if record.start else []),
        "- Tests: `scores/` has a file for each test set that was scored",
        f"- Limits: one training, with seed {record.seed}; not tested on other kinds of text than those above",
        f"- Made with: commit {record.commit}; {versions}; {record.machine}",
    ]
    return "\n".join(lines) + "\n"
