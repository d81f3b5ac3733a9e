"""Trains one architecture on prepared data, with the flags in scripts/train.sh and those of a recipe.

When fairseq-train crashes, it is started again if there is a new checkpoint. After a kill, the same command continues
from the last checkpoint, also with another number of devices. With other settings it starts anew and moves the old
run to RUN.old-TIME. Flags behind `--` go to fairseq-train and win over the recipe's.

For several machines, call the same command on each, with RUN and DATA on a shared disk, and set these variables:
NODES (how many), NODE_RANK (0 on the first, which writes RUN, then 1, 2, ...), MASTER_ADDR (address of the first) and
MASTER_PORT (a free port there, default 29500). RUNS_AT_A_TIME is for the record: how many runs share this machine.
Without it, the report does not give times.

Example: scripts/train.sh --data /tmp/demo --arch roformer_tiny --recipe demo --out /tmp/run
"""

import argparse
import os
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import settings
from ..command import Failure, fill, run, say
from ..files import write_text
from ..lock import locked
from ..paths import ROOT, USER_DIR
from ..prepared import one_dictionary, read_languages, read_text_language
from ..provenance import write_record
from ..recipes import Recipe, load_recipe
from ..steps import Steps
from . import checkpoints, launch
from .options import DEVICE_TOKENS, KEPT, check_recipe, parse, target_tokens

RECORD = "run.json"
SMALLER = "choose a smaller --device-tokens, or `-- --max-tokens` where that is given"


class Training:
    """One training run.

    Args:
        args: the result of :func:`parse`.

    Raises:
        Failure: the recipe is unknown, a flag is one that the scripts set themselves, or there are no prepared data.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.data, self.out = args.data, args.out
        self.folder = self.out / "checkpoints"
        recipe = load_recipe(args.recipe) if args.recipe else Recipe("none")
        settings.check_flags([*recipe.train_flags, *args.flags])
        check_recipe(recipe, args)
        self.recipe, self.task = recipe, recipe.kind
        self.max_update = args.max_update or recipe.max_update
        self.save_every = args.save_every or recipe.save_every
        self.target_tokens = target_tokens(recipe, args)
        self.machines = launch.Machines.of(os.environ)
        self.languages, data = self._prepared()
        words = fill(args.templates[self.task.is_text], **self._values())
        place = words.index("--arch")
        self.command, model = words[1:place], words[place:]
        self.device_tokens = args.device_tokens or DEVICE_TOKENS
        batch = [] if self.target_tokens else ["--max-tokens", str(self.device_tokens)]
        self.flags = [*model, *batch, *recipe.train_flags, *args.flags]
        devices = self.machines.count * (args.processes or 1)
        sizes = (self.save_every, self.target_tokens, devices, self.max_update)
        self.lines = [*data, settings.train_line(self.flags, *sizes)]

    @property
    def settings(self) -> str:
        """The settings that tell this run from others."""
        return "".join(f"{line}\n" for line in self.lines)

    def _prepared(self) -> Tuple[Tuple[str, str], List[str]]:
        """Languages and line of the data; empty if they are not prepared and the user only wants the settings."""
        read = read_text_language if self.task.is_text else read_languages
        try:
            return read(self.data), [settings.data_line(self.data)]
        except Failure:
            if self.args.print_settings:
                return ("", ""), []
            raise

    def _share_embeddings(self) -> str:
        """The flag for one dictionary of both languages, as prepare.sh makes it, or two; that of the task for text."""
        if self.task.is_text:
            return self.task.share_embeddings
        joined = one_dictionary(self.data, self.languages)
        return "--share-all-embeddings" if joined else "--share-decoder-input-output-embed"

    def _values(self) -> Dict[str, Any]:
        """Values of the placeholders in the script."""
        return dict(
            data=self.data,
            out=self.out,
            user_dir=USER_DIR,
            source=self.languages[0],
            target=self.languages[1],
            share_embeddings=self._share_embeddings(),
            task=self.task.name,
            criterion=self.task.criterion,
            arch=self.args.arch,
            seed=self.args.seed,
            max_update=self.max_update,
            save_every=self.save_every,
            keep=max(self.recipe.average, KEPT),
        )

    def run(self) -> None:
        """Trains, or continues, until it reaches ``max_update`` or the flags end it earlier.

        Raises:
            Failure: the training cannot begin or continue, or it fails; the message has the last error of its log.
        """
        steps = Steps(self.out)
        steps.settings = self.settings
        steps.setting(f"max-update {self.max_update}")
        if steps.is_done("train", "checkpoints"):
            return say("train: done before with the same settings")
        if not self.task.is_text:
            settings.check_validation(self.data, self.flags)
        settings.check_average(self.max_update, self.save_every, self.recipe.average, bool(self.args.recipe))
        settings.check_warmup(self.flags, self.max_update)
        import fairseq_rope  # noqa: F401  (fairseq alone would set up the log)

        from .fairseq_options import check_arch, check_options

        check_arch(self.args.arch)
        processes, batch = self._devices()
        check_options(self.data / "bin", None if self.task.is_text else self.languages, [*self.flags, *batch])
        command = [*launch.torchrun(self.machines, processes), *self.command, *self.flags, *batch]
        if self.machines.rank > 0:  # the first machine keeps the run
            return self._join(command)
        with locked(self.out):
            self._set_aside()
        with locked(self.out) as lock:
            if self._is_another():
                raise Failure(f"another call has begun a run with other settings in {self.out}: choose another --out")
            self._check_reached()
            write_text(self.out / settings.SETTINGS, self.settings)
            steps.step("train", ["checkpoints", RECORD], lambda: self._train(command, batch, processes, lock))

    def _devices(self) -> Tuple[int, List[str]]:
        """The number of processes on this machine, and flags for them, which are not part of the settings.

        Raises:
            Failure: there are fewer GPUs than processes.
        """
        import torch

        gpus = torch.cuda.device_count()
        processes = self.args.processes or (max(gpus, 1) if self.target_tokens else 1)  # a batch for each is an update
        if 0 < gpus < processes:
            raise Failure(f"--processes is {processes}, but there are {gpus} GPUs")
        devices, flags = self.machines.count * processes, []
        in_bf16 = self.recipe.bf16 and gpus > 0 and torch.cuda.get_device_capability()[0] >= 8
        if checkpoints.newest_updates(self.folder) and not self._is_another():  # its optimizer is of one precision
            in_bf16 = launch.in_bf16(self.out / RECORD)
        if in_bf16:
            flags.append("--bf16")
        if self.target_tokens:
            from .batch_size import choose_flags

            sizes = (self.target_tokens, devices, self.device_tokens, settings.batch_multiple(self.flags))
            flags += choose_flags(self.data / "bin", self.languages, *sizes)
        if gpus > 1 and devices == 1:
            flags += ["--distributed-world-size", "1"]
        return processes, flags

    def _join(self, command: Sequence[str]) -> None:
        """Trains on a further machine, once the first one has begun."""
        say(f"waiting for the machine with NODE_RANK=0 to begin the run {self.out}")
        file = self.out / settings.SETTINGS
        while not (file.is_file() and file.read_text(encoding="utf-8") == self.settings):
            time.sleep(2)
        if checkpoints.newest_updates(self.folder) >= self.max_update:
            return say("trained before")
        log = self.out / f"train.{self.machines.rank}.log"
        launch.train(command, log, None, self.max_update, self._label(), SMALLER)

    def _is_another(self) -> bool:
        """Whether the folder holds a run with other settings, or with unknown settings."""
        file = self.out / settings.SETTINGS
        if file.is_file():
            return file.read_text(encoding="utf-8") != self.settings
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _set_aside(self) -> None:
        """Moves a run with other settings away."""
        if self._is_another():
            old = f"{self.out}.old-{time.strftime('%Y%m%d-%H%M%S')}"
            say(f"other settings than before: the old run moves to {old}")
            self.out.rename(old)

    def _check_reached(self) -> None:
        reached = checkpoints.newest_updates(self.folder)
        if reached > self.max_update:
            raise Failure(
                f"{self.out} was trained for {reached} updates already: choose --max-update {reached} or more, or "
                "another --out"
            )

    def _label(self) -> str:
        return f"train {self.args.arch}, seed {self.args.seed}"

    def _train(self, command: Sequence[str], batch: Sequence[str], processes: int, lock: Optional[int]) -> None:
        """Writes the record of the run, trains, and names the last checkpoint."""
        checkpoints.repair(self.folder, self.save_every)
        reached, log = checkpoints.reached(self.folder), self.out / "train.log"
        self._record(batch, processes, continues=reached > 0)
        if reached < self.max_update:  # if it was killed after its last update, fairseq would make one more
            launch.train(command, log, lock, self.max_update, self._label(), SMALLER)
        reached = checkpoints.keep_last(self.folder)
        if reached != self.max_update:
            say(f"ended after {reached} of {self.max_update} updates, as its flags say")

    def _record(self, batch: Sequence[str], processes: int, continues: bool) -> None:
        args = self.args
        record = {
            "command": args.command,
            "arch": args.arch,
            "recipe": args.recipe or "none",
            "task": self.task.name,
            "seed": args.seed,
            "max_update": self.max_update,
            "average": self.recipe.average,
            "flags": " ".join(self.flags),
            "devices": self.machines.count * processes,
            "batch": " ".join(batch),
            "threads": os.environ.get("OMP_NUM_THREADS", os.cpu_count()),
            **({"jobs": self.machines.runs} if self.machines.runs else {}),
        }
        write_record(self.out / RECORD, record, ROOT, continues)


def main(argv: Sequence[str]) -> None:
    args = parse(argv, __doc__)
    training = Training(args)
    if args.print_settings:
        print(training.settings, end="")
        return
    training.run()


if __name__ == "__main__":
    run(main)
