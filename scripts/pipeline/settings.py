"""The settings that tell one training run from another: two lines in RUN/settings and in every result file.

The text never changes for the same run: if it matches, a result from any machine counts as finished.
"""

import hashlib
from pathlib import Path
from typing import Optional, Sequence

from .command import Failure, last_value, say
from .files import read_shaped, sha256
from .shape import WHOLE
from .steps import read_stamp

SETTINGS = "settings"
RESERVED = (
    *("--seed", "--arch", "--max-update", "--save-dir", "--save-interval-updates", "--keep-interval-updates"),
    *("--user-dir", "--log-format", "--source-lang", "--target-lang", "--task", "--no-save", "--restore-file"),
    *("--reset-optimizer", "--reset-dataloader", "--reset-lr-scheduler", "--reset-meters"),
    *("--checkpoint-suffix", "--no-last-checkpoints", "--no-save-optimizer-state"),
)
"""Flags of fairseq-train that the scripts set themselves, or that would contradict the settings of the run."""

SHORT = ("-a", "-s", "-t")
"""Short names of some of them."""

COMPLETE = ("--save-interval",)
"""Flags of fairseq-train that begin like a reserved one; other words that do so are abbreviations of it."""

BEGIN_WITH = ("--finetune-from-model", "--encoder-embed-path", "--decoder-embed-path")
"""Flags that name files with first values of parameters."""

BY_LAST_UPDATE = {
    "polynomial_decay": ("--total-num-update", False),
    "cosine": ("--lr-period-updates", False),
    "tri_stage": ("--phase-ratio", True),
}
"""Schedulers by which all learning rates depend on the last update, if this flag is missing (False) or given (True)."""

MULTIPLE = 8
"""The size of a batch is a multiple of this: fairseq-train's default of ``--required-batch-size-multiple``."""


def data_line(data: Path) -> str:
    """The line that names prepared data.

    Raises:
        Failure: there are no prepared data.
    """
    settings = read_stamp(data, "binarize").get("settings")
    if not isinstance(settings, str):
        raise Failure(f"{data} has no prepared data: run scripts/prepare.sh or prepare_text.sh --out {data} first")
    return f"data {hashlib.sha256(settings.encode()).hexdigest()}"


def train_line(
    flags: Sequence[str], save_every: int, target_tokens: Optional[int], devices: int, max_update: int
) -> str:
    """The line that names how a model is trained; without ``target_tokens`` an update has a batch of each device.

    It names the last update only if the learning rates before depend on it: else a longer training is the same one.

    Raises:
        Failure: a file with first values of parameters is missing; its content is named as well.
    """
    tokens = f" target tokens {target_tokens}" if target_tokens else f" devices {devices}" if devices > 1 else ""
    start = ""
    for name in BEGIN_WITH:
        path = last_value(flags, name)
        if path is not None and not Path(path).is_file():
            raise Failure(f"{path}: no such file for {name}")
        start += f" from {sha256(Path(path))}" if path is not None else ""
    scheduler, end = last_value(flags, "--lr-scheduler") or "", ""
    if scheduler in BY_LAST_UPDATE:
        flag, given = BY_LAST_UPDATE[scheduler]
        end = f" max update {max_update}" if (last_value(flags, flag) is not None) == given else ""
    return f"train {' '.join(flags)} --save-interval-updates {save_every}{end}{tokens}{start}"


def is_unfinished(run: Path) -> bool:
    """Whether train.sh has begun a run and not trained it to its end."""
    return (run / SETTINGS).is_file() and not read_stamp(run, "train")


def check_data(run: Path, data: Path) -> None:
    """Raises Failure if the run was trained on other data, or if there are no data."""
    line, settings = data_line(data), run / SETTINGS
    if settings.is_file() and line not in settings.read_text(encoding="utf-8").splitlines():
        raise Failure(f"{run} was trained on other data than {data} holds now: give the folder it was trained on")


def check_flags(flags: Sequence[str], more: Sequence[str] = ()) -> None:
    """Raises Failure for a flag of fairseq-train that the scripts set themselves, which includes those in ``more``."""
    for flag in flags:
        name = flag.split("=")[0]
        abbreviates = (
            len(name) > 2 and name not in COMPLETE and any(long.startswith(name) for long in (*RESERVED, *more))
        )
        if abbreviates or flag[:2] in SHORT:
            raise Failure(
                f"{flag} does not go among the flags of fairseq-train: it has an option of its own, or is set here"
            )
    if last_value(flags, "--lr-scheduler") == "reduce_lr_on_plateau":
        raise Failure(
            "--lr-scheduler reduce_lr_on_plateau goes by the loss at the ends of epochs, where train.sh does not "
            "validate: choose another one, or --patience N to end the training"
        )


def check_validation(data: Path, flags: Sequence[str]) -> None:
    """Raises Failure for a validation set smaller than a batch, which fairseq-train would take for an empty one."""
    least = batch_multiple(flags)
    path, pairs = data / "raw/valid.json", least
    if path.is_file():
        pairs = read_shaped(path, {"pairs": WHOLE}, f"run scripts/prepare.sh --out {data} again")["pairs"]
    if pairs < least and "--disable-validation" not in flags:
        raise Failure(
            f"the validation set has {pairs} pairs, and fairseq-train needs {least}: prepare a larger one, or give "
            f"`-- --disable-validation` or `-- --required-batch-size-multiple {pairs}`"
        )


def check_warmup(flags: Sequence[str], max_update: int) -> None:
    """Tells the user if a learning rate that is to fall to 0 by the last update only rises."""
    warmup = last_value(flags, "--warmup-updates") or ""
    falls = last_value(flags, "--lr-scheduler") == "polynomial_decay"
    if falls and warmup.isdecimal() and int(warmup) >= max_update:
        say(f"the learning rate rises for {warmup} updates and training has {max_update}: give fewer --warmup-updates")


def check_average(max_update: int, save_every: int, average: int, certain: bool = True) -> None:
    """Raises Failure if a training makes fewer checkpoints than are to be averaged; the last update makes one.

    Args:
        certain: whether so many will be averaged; if not, the function only tells the user.
    """
    made = -(-max_update // save_every)
    if made >= average:
        return
    remedy = f"--save-every {max_update // average} or less" if max_update >= average else f"--max-update {average}"
    message = (
        f"{max_update} updates with a checkpoint every {save_every} make {made} checkpoint{'s' * (made > 1)}, but "
        f"{average} are to be averaged: choose {remedy}"
    )
    if certain:
        raise Failure(message)
    say(f"{message}, or call average.sh with --last {made}")


def batch_multiple(flags: Sequence[str]) -> int:
    """The number of sentences of which the size of a batch is a multiple."""
    given = last_value(flags, "--required-batch-size-multiple") or ""
    return int(given) if given.isdecimal() and int(given) else MULTIPLE
