"""The identity of a training: RUN/settings, lines that tell it from others, also in every result file.

Two runs with the same text are the same run on any machine: a result that has it counts as finished.
"""

import hashlib
import re
from itertools import combinations
from pathlib import Path
from typing import Collection, Dict, Iterator, List, Mapping, Optional, Sequence

from .command import Failure, check_name, say
from .files import sha256
from .steps import read_stamp, stamp_path

SETTINGS = "settings"
Flags = Dict[str, List[str]]
"""Flags of fairseq-train, to the words that follow them."""

IN_RECIPES = ("--max-update", "--save-interval-updates", "--task")
RESERVED = (
    *(*IN_RECIPES, "--seed", "--arch", "--save-dir", "--keep-interval-updates", "--user-dir", "--log-format"),
    *("--source-lang", "--target-lang", "--no-save", "--restore-file", "--no-last-checkpoints"),
    *("--reset-optimizer", "--reset-dataloader", "--reset-lr-scheduler", "--reset-meters"),
    *("--checkpoint-suffix", "--no-save-optimizer-state", "--max-epoch", "--stop-min-lr", "--stop-time-hours"),
)
"""Flags of fairseq-train that the scripts set themselves, that would contradict the settings of the run, or that would
end it between two checkpoints, where another machine would not."""

HALVES = {"--fp16", "--bf16", "--amp", "--memory-efficient-fp16", "--memory-efficient-bf16"}
"""Flags that train in another precision than fp32."""

BEGIN_WITH = ("--finetune-from-model", "--encoder-embed-path", "--decoder-embed-path")
"""Flags that name files with first values of parameters."""

BY_LAST_UPDATE = {
    "polynomial_decay": ("--total-num-update", False),
    "cosine": ("--lr-period-updates", False),
    "tri_stage": ("--phase-ratio", True),
}
"""Schedulers by which all learning rates depend on the last update, if this flag is missing (False) or given (True)."""


UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt\b")
"""The name of a checkpoint that was saved after so many updates."""


def flags_in(words: Sequence[str]) -> Flags:
    """The flags among the words of a command line; of one that is repeated, the last counts."""
    flags: Flags = {}
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            flags.pop(name, None)
            last = flags[name] = [value] if equals else []
        elif flags:
            last.append(word)
        else:
            raise Failure(f"{word} is no flag of fairseq-train: these begin with --")
    return flags


def words_in(flags: Mapping[str, Sequence[str]]) -> List[str]:
    """The words of a command line."""
    return [word for name, values in flags.items() for word in (name, *values)]


def data_line(data: Path, known: str = "") -> str:
    """The line that names prepared data.

    Test sets that joined them make no other training: if the settings ``known`` have the line of the same data with
    fewer test sets, it is that one.
    """
    settings = read_stamp(data, "binarize").get("settings")
    if not isinstance(settings, str):
        if (data / "bin").is_dir():
            missing = f"{stamp_path(data, 'binarize')} is missing or damaged"
            raise Failure(f"{missing}: copy hidden files, too, or run scripts/prepare.sh or prepare_text.sh again")
        raise Failure(f"{data} has no prepared data: run scripts/prepare.sh or prepare_text.sh --out {data} first")
    lines = (f"data {hashlib.sha256(text.encode()).hexdigest()}" for text in _with_fewer_tests(settings))
    present = next(lines)
    return next((line for line in lines if line in known), present) if known and present not in known else present


def _with_fewer_tests(settings: str) -> Iterator[str]:
    """The settings of prepared data, and what they would be without some of the test sets that stand side by side."""
    yield settings
    text = r"text \S+ test\d* .*\n(?:JSON .*\n)?"
    pairs = re.match(r"input \S+(?: \S+){4}((?: \S+ \S+)+)\n", settings)  # of languages, training and validation
    if found := pairs or re.search(f"((?:{text})+)", settings):
        before, after = settings[: found.start(1)], settings[found.end(1) :]
        tests = re.findall(f"{text}| \\S+ \\S+", found[1])
        for start, end in combinations(range(len(tests) + 1), 2):
            kept = tests[:start] + tests[end:]
            numbered = (re.sub(r" test\d* ", f" test{n or ''} ", test, count=1) for n, test in enumerate(kept))
            yield "".join([before, *(kept if pairs else numbered), after])


def train_line(flags: Flags, save_every: int, target_tokens: Optional[int], devices: int, max_update: int) -> str:
    """The line that names how a model is trained; without ``target_tokens`` an update has a batch of each device.

    It names the last update only if the learning rates before depend on it: else a longer training is the same one.
    """
    words = [*words_in(flags), "--save-interval-updates", str(save_every)]
    flag, given = BY_LAST_UPDATE.get(" ".join(flags.get("--lr-scheduler", [])), ("", None))
    if (flag in flags) == given:
        words += ["max update", str(max_update)]
    words += ["target tokens", str(target_tokens)] if target_tokens else ["devices", str(devices)] * (devices > 1)
    for name in BEGIN_WITH:
        path = Path(" ".join(flags.get(name, ["."])))
        if name in flags and not path.is_file():
            raise Failure(f"{path}: no such file for {name}")
        words += ["from", sha256(path)] if name in flags else []
    return normalised(f"train {' '.join(words)}")


def normalised(settings: str) -> str:
    """Settings with sorted flags, each once; those of 0.2 have the order of a command, in which the last one counts."""
    lines = settings.splitlines(keepends=True)
    return "".join(_sorted(line) if line.startswith("train ") else line for line in lines)


def _sorted(line: str) -> str:
    flags, end, rest = line.partition(" --save-interval-updates ")
    name, *each = re.split(r" (?=--[a-z])", flags)
    last = {flag.split(" ", 1)[0]: flag for text in each for flag in [re.sub(r"^(--[\w-]+)=", r"\1 ", text)]}
    return " ".join([name, *(last[flag] for flag in sorted(last))]) + end + rest


def read_settings(run: Path) -> str:
    """The settings of a run, as this version writes them; empty without any."""
    path = run / SETTINGS
    return normalised(path.read_text(encoding="utf-8")) if path.is_file() else ""


def read_present_settings(run: Path, data: Path) -> str:
    """The settings of a run with the line that its data have now, if only test sets joined them."""
    known = read_settings(run)
    return known.replace(data_line(data, known), data_line(data)) if read_stamp(data, "binarize") else known


def is_unfinished(run: Path) -> bool:
    """Whether train.sh has begun a run and not trained it to its end."""
    return (run / SETTINGS).is_file() and not read_stamp(run, "train")


def averaged(run: Path) -> Path:
    """The averaged checkpoint of a run; tells the user if the training has not ended, or has a later one."""
    checkpoint = run / "checkpoint.pt"
    if not checkpoint.is_file():
        raise Failure(f"{run} has no checkpoint.pt: run scripts/average.sh --run {run} --data DATA first")
    check_name(str(checkpoint))
    if is_unfinished(run):
        say(f"{run} is not trained to its end, or was copied without hidden files: its model may be an earlier one")
    averaged_ones = str(read_stamp(run, "average").get("settings"))
    there = " ".join(path.name for path in run.glob("checkpoints/*.pt"))
    last, newest = (max(map(int, UPDATES.findall(names)), default=0) for names in (averaged_ones, there))
    if 0 < last < newest:
        say(f"{checkpoint} is of {last:,} updates, the training of {newest:,}: scripts/average.sh averages anew")
    return checkpoint


def check_data(run: Path, data: Path) -> None:
    """Raises Failure if the run was trained on other data, or if there are no data."""
    check_name(str(data))
    known = read_settings(run)
    if data_line(data, known) not in known.splitlines() and known:
        raise Failure(f"{run} was trained on other data than {data} holds now: give the folder it was trained on")


def check_flags(flags: Mapping[str, Sequence[str]], reserved: Collection[str] = RESERVED) -> None:
    """Raises Failure for a flag of fairseq-train that the scripts set themselves."""
    for name, values in flags.items():
        short = [word for word in values if re.match("-[ast]", word)]
        if name in reserved or short:
            raise Failure(
                f"{[*short, name][0]} does not go among the flags of fairseq-train: the scripts set it, have an option "
                "for it, or it would contradict them (of train.sh, --max-update N or `-- --patience N` end a training)"
            )
    if list(flags.get("--lr-scheduler", [])) == ["reduce_lr_on_plateau"]:
        raise Failure(
            "--lr-scheduler reduce_lr_on_plateau goes by the loss at the ends of epochs, where train.sh does not "
            "validate: choose another one, or --patience N to end the training"
        )


def check_warmup(flags: Flags, max_update: int) -> None:
    """Tells the user if a learning rate that is to fall to 0 by the last update only rises."""
    warmup = " ".join(flags.get("--warmup-updates", []))
    falls = flags.get("--lr-scheduler") == ["polynomial_decay"]
    if falls and warmup.isdecimal() and int(warmup) >= max_update:
        say(f"the learning rate rises for {warmup} updates and training has {max_update}: give fewer --warmup-updates")


def check_average(max_update: int, save_every: int, average: int) -> None:
    """Raises Failure if a training makes fewer checkpoints than are to be averaged; the last update makes one."""
    made = -(-max_update // save_every)
    if made < average:
        remedy = f"--save-every {max_update // average} or less" if max_update >= average else f"--max-update {average}"
        raise Failure(
            f"{max_update} updates with a checkpoint every {save_every} make {made} checkpoint{'s' * (made > 1)}, but "
            f"{average} are to be averaged: choose {remedy}"
        )
