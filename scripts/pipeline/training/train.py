"""Trains one architecture on prepared data: prints the command of fairseq-train that the recipe makes, and runs it.

When fairseq-train crashes, it is started again if there is a new checkpoint. After a kill, the same command continues
from the last checkpoint, also with another number of devices. With other settings it starts anew and moves the old
run to RUN.old-TIME. Flags behind `--` go to fairseq-train and win over the recipe's.

For several machines, call the same command on each, with RUN and DATA on a shared disk, and set these variables:
NODES (how many), NODE_RANK (0 on the first, which writes RUN, then 1, 2, ...), MASTER_ADDR (address of the first) and
MASTER_PORT (a free port there, default 29500).

Example: scripts/train.sh --data /tmp/demo --arch roformer_tiny --recipe demo --out /tmp/run
"""

import argparse
import os
import shlex
import time
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import settings
from ..command import Failure, Parser, as_failure, check_name, say, to_path, whole_number
from ..device import threads
from ..files import sha256, write_text
from ..lock import locked
from ..paths import USER_DIR
from ..prepared import one_dictionary, read_languages
from ..provenance import RECORD, read_record, write_record
from ..recipes import BATCH, load_recipe
from ..settings import Flags, flags_in, words_in
from ..steps import Steps
from . import checkpoints, launch

FIRST = "from.pt"
"""What a training with ``--from`` begins with, in its folder until it ends."""

KEPT = 10
"""How many checkpoints to keep, unless the recipe averages more."""

WORTH_SAYING = 1.3
"""How many times as fast bf16 is at least if ``train.sh`` recommends it."""

SMALLER = "choose a smaller --device-tokens, or `-- --max-tokens` where that is given"


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/train.sh``."""
    parser = Parser(doc, "fairseq-train")
    for name, text in (
        ("data", "output of scripts/prepare.sh or prepare_text.sh"),
        ("out", "output folder: checkpoints/, train.log and run.json"),
    ):
        parser.add_argument(f"--{name}", type=to_path, required=True, help=text)
    text = "architecture (`fairseq-rope info` lists them); without it, that of --from with all its options but dropout"
    parser.add_argument("--arch", help=text)
    text = "a name in scripts/recipes, or the path of a .toml file (default: translation)"
    parser.add_argument("--recipe", help=text)
    parser.add_argument("--seed", type=whole_number(0), default=1, help="random seed (default: 1)")
    text = "begin with the parameters of this averaged run or checkpoint, whose position encoding may be another one"
    parser.add_argument("--from", dest="start", type=to_path, metavar="RUN_OR_FILE", help=text)
    for name, text in {
        "max-update": "number of updates (default: the recipe's)",
        "save-every": f"updates between checkpoints; at least the last {KEPT} are kept (default: the recipe's)",
        "target-tokens": "target tokens per update, on all devices together; determines --max-tokens and --update-freq "
        "(default: the recipe's, else none: --max-tokens is --device-tokens)",
        "device-tokens": "limit of --max-tokens, by the memory of a device (default: 4096; more is faster)",
        "processes": "processes on this machine, each with a batch of its own, over gloo on CPUs (default: 1; with "
        "--target-tokens, which spreads its batch over them, one per GPU)",
    }.items():
        parser.add_argument(f"--{name}", type=whole_number(1), help=text)
    args = parser.parse_args(argv)
    if not (args.arch or args.start):
        parser.error("--arch is required without --from")
    args.command = shlex.join(["scripts/train.sh", *argv])
    return args


class Training:
    """One training run, from the options that :func:`parse` gives."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.data, self.out = args.data, args.out
        self.folder = self.out / "checkpoints"
        self.start = args.start / "checkpoint.pt" if args.start and args.start.is_dir() else args.start
        self.recipe = recipe = load_recipe(args.recipe or "translation")
        self.task = recipe.task
        if recipe.grid:
            raise Failure(f"the recipe {recipe.name} is for scripts/finetune.sh")
        given = flags_in(args.flags)
        settings.check_flags(given)
        settings.check_flags(recipe.flags, set(settings.RESERVED) - set(settings.IN_RECIPES))
        for path in (self.data, self.out):
            check_name(str(path))
        if recipe.start and not self.start:
            raise Failure(f"the recipe {recipe.name} begins with a run of {recipe.start}: give that run as --from RUN")
        if self.start and set(settings.BEGIN_WITH) & {*recipe.flags, *given}:
            raise Failure("--from names the first parameters: leave --finetune-from-model and the like out")
        self.machines = launch.Machines.of(os.environ)
        flags = {"--arch": [args.arch], **recipe.flags, "--seed": [str(args.seed)]}
        if not args.arch:
            from fairseq_rope.checkpoints.positions import with_options_of

            with as_failure():
                flags = with_options_of(self.checkpoint, flags, given)
        max_update, save_every = (flags.pop(name, ["0"])[0] for name in ("--max-update", "--save-interval-updates"))
        self.max_update, self.save_every = args.max_update or int(max_update), args.save_every or int(save_every)
        if not (self.max_update and self.save_every):
            raise Failure(f"the recipe {recipe.name} has no max-update or interval: give --max-update and --save-every")
        self.device_tokens = args.device_tokens or 4096
        self.target_tokens = self._target_tokens(flags, given)
        if "--share-all-embeddings" in flags and not one_dictionary(self.data):
            del flags["--share-all-embeddings"]
            flags["--share-decoder-input-output-embed"] = []
        self.arch = flags["--arch"][0]
        others = settings.HALVES if settings.HALVES & set(given) else ()  # a training has one precision
        self.flags: Flags = {**{name: flags[name] for name in flags if name not in others}, **given}
        if self.flags.get("--lr-scheduler") == ["polynomial_decay"]:
            self.flags.setdefault("--total-num-update", [str(self.max_update)])

    def _target_tokens(self, flags: Flags, given: Flags) -> Optional[int]:
        """Target tokens of an update; None if the flags choose the batch, of which one is added if there is none."""
        args, by_hand = self.args, [f"--{key}" for key in BATCH]
        if args.target_tokens and set(given) & set(by_hand):
            raise Failure("--target-tokens chooses the batch: leave it out, or --max-tokens and the like behind --")
        tokens = None if set(given) & set(by_hand) else args.target_tokens or self.recipe.train.get("target-tokens")
        if tokens and self.task.is_text:
            raise Failure("target tokens are for translation: give `-- --max-tokens N --update-freq N` in their place")
        if tokens:
            for name in by_hand:
                flags.pop(name, None)
            return int(str(tokens))
        if args.device_tokens and set(by_hand) & {*flags, *given}:
            raise Failure("--device-tokens has no effect beside --max-tokens: give `-- --max-tokens N` in its place")
        flags.setdefault("--max-tokens", [str(self.device_tokens)])
        return None

    @cached_property
    def checkpoint(self) -> Dict[str, Any]:
        """The checkpoint of ``--from``; raises Failure if it is missing, or cannot be loaded."""
        from fairseq_rope.checkpoints.convert import load_whole
        from fairseq_rope.loading import configuration_in, entry

        self._check_start()
        if self.args.start.is_dir():
            settings.averaged(self.args.start)
        with as_failure():
            state = load_whole(self.start)
        if not entry(configuration_in(state), "dictionaries"):
            say(f"{self.start} has no dictionaries (dict.*.txt) beside it: the words of the data are not compared")
        return state

    def _check_start(self) -> None:
        """Raises Failure if there is no checkpoint of ``--from``."""
        if self.start and not self.start.is_file():
            raise Failure(f"{self.start}: no such checkpoint for --from: run scripts/average.sh, or name a file")

    @property
    def settings(self) -> str:
        """The settings that tell this run from others; without the line of the data if they are not prepared."""
        return self.settings_like(settings.read_settings(self.out))

    def settings_like(self, known: str) -> str:
        """The same, with the line of the data that the settings ``known`` have, if test sets joined the data later."""
        self._check_start()
        devices = self.machines.nodes * (self.args.processes or 1)
        sizes = (self.save_every, self.target_tokens, devices, self.max_update)
        lines = [settings.data_line(self.data, known)] if (self.data / "prepare.json").is_file() else []
        lines += [settings.train_line(self.flags, *sizes), *([f"from {sha256(self.start)}"] if self.start else [])]
        return "".join(f"{line}\n" for line in lines)

    @property
    def beginning(self) -> str:
        """The name of what ``--from`` gives: the training that the recipe begins with, or another file."""
        assert self.start
        recipe, _, arch = self.recipe.start.rpartition("/")
        is_named = arch and self.start.absolute().parent.parent.name == arch
        return f"{Path(recipe).stem}/{arch}" if is_named else self.start.name

    def run(self) -> None:
        """Trains, or continues, until it reaches ``max_update`` or the flags end it earlier."""
        languages = read_languages(self.data, self.task.is_text)
        settings.data_line(self.data)  # raises Failure if there are none
        steps = Steps(self.out, self.settings)
        steps.setting(f"max-update {self.max_update}")
        if steps.is_done("train", "checkpoints"):
            return say("train: done before with the same settings")
        if self.args.recipe:  # without one, average.sh says how many there are
            settings.check_average(self.max_update, self.save_every, self.recipe.score.average)
        settings.check_warmup(self.flags, self.max_update)
        import fairseq_rope  # noqa: F401  (fairseq alone would set up the log)

        from .fairseq_options import parse as parse_flags

        processes, batch = self._devices(languages)
        words = [*words_in(self.flags), *batch]
        first = self._first_parameters(parse_flags(words))
        command = ["fairseq-train", *self._places(languages), *words]
        if self.machines.rank > 0:  # the first machine keeps the run
            return self._join(command, processes)
        with locked(self.out):
            if self._is_another():
                old = f"{self.out}.old-{time.strftime('%Y%m%d-%H%M%S')}"
                say(f"other settings than before: the old run moves to {old}")
                with locked(self.folder):  # which a worker holds that outlives a killed call
                    self.out.rename(old)
        with locked(self.out):
            if self._is_another():
                raise Failure(f"another call has begun a run with other settings in {self.out}: choose another --out")
            if (reached := checkpoints.newest_updates(self.folder)) > self.max_update:
                raise Failure(
                    f"{self.out} was trained for {reached} updates already: choose --max-update {reached} or more, or "
                    "another --out"
                )
            write_text(self.out / settings.SETTINGS, self.settings)
            steps.step("train", ["checkpoints", RECORD], lambda: self._train(command, batch, processes, first))

    def _first_parameters(self, options: argparse.Namespace) -> Optional[Dict[str, Any]]:
        """The checkpoint of ``--from`` with the position encoding of this training; None without one."""
        if self.start is None:
            return None
        from fairseq_rope.checkpoints.positions import convert_for

        with as_failure():
            change = convert_for(self.checkpoint, options, self.args.seed)
        del self.checkpoint  # the training needs the memory
        say("; ".join(filter(None, [f"begins with {self.start}", change.report(self.args.seed)])))
        return change.state

    def _places(self, languages: Tuple[str, str]) -> List[str]:
        """The words of the command that do not tell this run from others: files, and when to write them."""
        more = ["--source-lang", languages[0], "--target-lang", languages[1]]
        if "--langs" in self.flags:
            more = ["--lang-pairs", "-".join(languages)]
        if self.task.is_text:
            more = ["--required-batch-size-multiple", "1"]  # no block is left out
        if self.start:
            more += ["--finetune-from-model", str(self.out / FIRST)]
        kept = max(self.recipe.score.average, KEPT)
        return [
            *(str(self.data / "bin"), *more, "--user-dir", str(USER_DIR), "--save-dir", str(self.folder)),
            *f"--max-update {self.max_update} --save-interval-updates {self.save_every}".split(),
            *f"--validate-interval-updates {self.save_every} --keep-interval-updates {kept}".split(),
            *"--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000".split(),
            *"--log-format json --log-interval 10".split(),
        ]

    def _devices(self, languages: Tuple[str, str]) -> Tuple[int, List[str]]:
        """The number of processes on this machine, and flags for them, which are not part of the settings."""
        import torch

        gpus = self._gpus
        processes = self.args.processes or (max(gpus, 1) if self.target_tokens else 1)  # a batch for each is an update
        if 0 < gpus < processes:
            raise Failure(f"--processes is {processes}, but there are {gpus} GPUs")
        devices, flags = self.machines.nodes * processes, []
        in_bf16 = bool(self.recipe.train.get("bf16-on-gpu")) and not settings.HALVES & set(self.flags)
        in_bf16 = in_bf16 and gpus > 0 and torch.cuda.get_device_capability()[0] >= 8
        if checkpoints.newest_updates(self.folder) and not self._is_another():  # its optimizer is of one precision
            in_bf16 = "--bf16" in read_record(self.out).batch.split()
        if in_bf16:
            flags.append("--bf16")
        if self.target_tokens:
            from .batch_size import MULTIPLE, choose_flags

            (multiple,) = self.flags.get("--required-batch-size-multiple", [str(MULTIPLE)])
            sizes = (self.target_tokens, devices, self.device_tokens, int(multiple))
            flags += choose_flags(self.data / "bin", languages, *sizes)
        if devices == 1 and torch.cuda.device_count() > 1:  # without torchrun, the command would take all
            flags += ["--distributed-world-size", "1"]
        return processes, flags

    @property
    def _gpus(self) -> int:
        """The number of GPUs that the training may use: none with ``--cpu``."""
        import torch

        return 0 if "--cpu" in self.flags else torch.cuda.device_count()

    def _join(self, command: Sequence[str], processes: int) -> None:
        """Trains on a further machine, once the first one has begun."""
        say(f"waiting for the machine with NODE_RANK=0 to begin the run {self.out}")
        file = self.out / settings.SETTINGS
        while not (file.is_file() and file.read_text(encoding="utf-8") == self.settings):
            time.sleep(2)
        if checkpoints.newest_updates(self.folder) >= self.max_update:
            return say("trained before")
        self._launch(command, processes, f"train.{self.machines.rank}.log")

    def _is_another(self) -> bool:
        """Whether the folder holds a run with other settings, or with unknown settings."""
        if known := settings.read_settings(self.out):
            return known != self.settings
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _train(
        self, command: Sequence[str], batch: Sequence[str], processes: int, first: Optional[Dict[str, Any]]
    ) -> None:
        """Writes the record of the run, trains, and names the last checkpoint."""
        with locked(self.folder):
            reached = checkpoints.repair(self.folder, self.save_every)
        if not reached and (self.out / "checkpoint.pt").is_file():
            say(f"{self.folder} has no checkpoint to go on from: the training begins anew")
        library = self._products(continues=reached > 0)
        self._record(batch, processes, library, continues=reached > 0)
        if first and reached == 0:
            from fairseq_rope.checkpoints.files import save_checkpoint

            save_checkpoint(first, self.out / FIRST)
            first.clear()  # the training needs the memory
        if reached < self.max_update:  # if it was killed after its last update, fairseq would make one more
            self._launch(command, processes, "train.log", library)
        (self.out / FIRST).unlink(missing_ok=True)
        reached = checkpoints.keep_last(self.folder)
        if reached != self.max_update:
            say(f"ended after {reached} of {self.max_update} updates, as its flags say")

    def _products(self, continues: bool) -> str:
        """The library for products on CPUs, which rounds as before in a run that continues; empty on GPUs."""
        from fairseq_rope import products

        if self._gpus:
            return ""
        could_change = not (continues or settings.HALVES & set(self.flags))
        if could_change and (speed := products.speed_of_bf16()) > WORTH_SAYING:
            say(f"products are {speed:.1f} times as fast in bf16 on this processor: `-- --bf16` trains in it")
        before = read_record(self.out).products if continues else ""
        return products.required() or before or products.library()

    def _launch(self, command: Sequence[str], processes: int, log: str, library: str = "") -> None:
        from fairseq_rope.products import VARIABLE

        say(shlex.join(command))
        say(f"its log: {self.out / log}")
        label = f"train {self.arch}, seed {self.args.seed}"
        variables = {VARIABLE: library} if library else {}
        if processes > 1:
            variables["OMP_NUM_THREADS"] = threads(processes)
        launch.train(self.machines, processes, command, self.out / log, self.max_update, label, SMALLER, variables)

    def _record(self, batch: Sequence[str], processes: int, library: str, continues: bool) -> None:
        record = {
            "command": self.args.command,
            "arch": self.arch,
            "recipe": self.recipe.option,
            "task": self.task.name,
            "seed": self.args.seed,
            "max_update": self.max_update,
            "average": self.recipe.score.average,
            "flags": " ".join(words_in(self.flags)),
            "devices": self.machines.nodes * processes,
            "batch": " ".join(batch),
            "threads": threads(processes),
            **({"products": library} if library else {}),
            **({"from": f"{self.beginning}, SHA-256 {sha256(self.start)}"} if self.start else {}),
        }
        write_record(self.out / RECORD, record, continues)


def main(argv: Sequence[str]) -> None:
    Training(parse(argv, __doc__)).run()
