"""Fine-tunes pretrained masked language models on tasks, and evaluates them on the validation sets.

Examples:

    scripts/finetune.sh TASK... --run RUN... --data FOLDER [options] [-- fairseq-train flags]
    scripts/finetune.sh CoLA RTE --run runs/mlm_books/roformer_mlm_small/seed1 --data ~/glue
    scripts/finetune.sh GLUE --run runs/mlm_books/*/seed1 --data ~/glue --results results

TASK is CoLA, MRPC, RTE, SST-2 or STS-B, and FOLDER has TASK/train.tsv and TASK/dev.tsv, plain or with .gz. GLUE stands
for these five. Or TASK is SCM, and FOLDER has input.jsonl: Chinese text without labels, to try long text.
RUN is the output of train.sh and average.sh. When a training fails, the other runs and tasks go on.

The text is split with the subwords of the pretraining, and shortened to the length of its blocks. Each learning rate is
tried with each seed; the rate with the best median over seeds counts. It writes the predictions of each training, and
one result file for each run and task. It skips trainings that are done; one that was killed begins anew.
"""

import argparse
import logging
import os
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import Failure, check_name, fill, run, say
from ..files import read_lines, read_shaped, sha256, write_text
from ..lock import locked
from ..paths import ROOT, USER_DIR
from ..provenance import write_record
from ..recipes import load_recipe
from ..results.file import read_result, set_aside, write_result
from ..scoring.metrics import table
from ..settings import check_flags
from ..shape import WHOLE
from ..steps import Steps
from ..systems import System
from ..training import launch
from ..training.checkpoints import LAST, epochs_in
from .base import SHORTENED
from .metrics import evaluate, most_frequent
from .options import TASKS, parse, variant_of
from .pretrained import Pretrained
from .result import Trained, make_result, replaces
from .scm import SCM

WARM_UP = 0.06
"""The part of the updates in which the learning rate rises."""

FIXED = (
    *("--max-update", "--max-tokens", "--max-sentences", "--update-freq", "--required-batch-size-multiple"),
    *("--regression-target", "--init-token", "--separator-token", "--classification-head-name", "--ranking-head-name"),
)
"""Flags that would contradict the schedule of learning rates or the task, beside those that the command computes."""


class FineTuning:
    """The trainings of one task from one pretrained model.

    Args:
        args: one of the results of :func:`parse`.

    Raises:
        Failure: the run, the recipe or the files of the task cannot be used.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.task = args, TASKS[args.task]
        self.recipe = load_recipe(args.recipe or ("scm" if args.task == SCM.name else "glue"))
        if self.recipe.kind.trained_by != "finetune.sh":
            raise Failure(f"the recipe {self.recipe.name} is for scripts/{self.recipe.kind.trained_by}")
        check_flags([*self.recipe.train_flags, *args.flags], set_by(args.template))
        self.out: Path = args.out or args.run / "finetuned" / self.task.name
        for path in (args.run, self.out):
            check_name(str(path.absolute()))
        self.pretrained = Pretrained(args.run)
        args.variant = args.variant or variant_of(args.run, self.pretrained.arch)
        self.learning_rates: List[float] = args.learning_rates or self.recipe.learning_rates
        self.seeds: List[int] = args.seeds or self.recipe.seeds
        self.epochs: int = args.epochs or self.recipe.epochs
        self.examples = self._examples()
        self.sets = self.task.read(args.data)
        self.labels = [example.label for example in self.sets["valid"]]

    def _examples(self) -> str:
        """The line of the settings that names the task and its files."""
        return " ".join([self.task.settings, *map(sha256, self.task.files(self.args.data))])

    @property
    def file(self) -> Path:
        """The result file."""
        system = System(self.pretrained.arch, self.args.variant)
        name = f"{self.recipe.name}_{self.task.name}-{system.name}-seed{self.pretrained.seed}.json"
        return (self.args.results or self.out) / name

    def run(self) -> Dict[str, Any]:
        """Does the trainings that are not done yet, and writes the result file; returns its content.

        Raises:
            Failure: a training fails.
        """
        logging.disable(logging.INFO)  # what fairseq says
        with locked(self.out) as lock:
            if self._examples() != self.examples:
                raise Failure(f"{self.args.data}: the files of {self.task.name} have changed meanwhile: call again")
            steps = Steps(self.out)
            for line in (self.examples, *self.pretrained.files(), f"at most {self.pretrained.longest} tokens"):
                steps.setting(line)
            steps.step("encode", ["data/input0", f"data/{SHORTENED}"], self._encode)
            grid = [(lr, seed) for lr in self.learning_rates for seed in self.seeds]
            done = [self._train(number, len(grid), *cell, steps.settings, lock) for number, cell in enumerate(grid, 1)]
            flags = [*self.recipe.train_flags, *self.args.flags]
            changed = " ".join([self.examples, f"epochs {self.epochs} batch {self.recipe.batch}", *flags])
            data = {"examples": {name: len(found) for name, found in self.sets.items()}, "shortened": self._shortened()}
            chance = most_frequent(self.task, [example.label for example in self.sets["train"]], self.labels)
            self.pretrained.check(steps.settings)
            result = make_result(self.args, self.task, self.pretrained, self.recipe.name, changed, done, data, chance)
        file = self.file
        if file.is_file() and not replaces(result, read_result(file)):
            set_aside(file)
        write_result(result, file)
        return result

    def _encode(self) -> None:
        from .data import encode

        encode(self.task, self.sets, self.pretrained.run, self.out / "data", self.pretrained.longest)

    def _shortened(self) -> Dict[str, int]:
        """How many examples of each set are shortened."""
        remedy = f"remove {self.out / 'data'} and call again"
        return dict(read_shaped(self.out / "data" / SHORTENED, dict.fromkeys(self.sets, WHOLE), remedy))

    def _train(self, number: int, of: int, lr: float, seed: int, settings: str, lock: Optional[int]) -> Trained:
        """One training, its predictions and its scores."""
        folder = self.out / f"lr{lr:g}-seed{seed}"
        command, flags = self._command(folder, lr, seed)
        steps = Steps(folder)
        steps.settings = settings
        steps.setting(f"finetune {' '.join(flags)}")

        def work() -> None:
            self.pretrained.check(settings)
            self._launch(folder, command, flags, seed, lock, f"{self.task.name} {number} of {of}")

        steps.step("finetune", ["predictions.txt", "train.log"], work)
        predictions = read_lines(folder / "predictions.txt")
        if len(predictions) != len(self.labels):
            raise Failure(f"{folder}/predictions.txt is damaged: remove {folder} and call again")
        return Trained(folder, lr, seed, evaluate(self.task, predictions, self.labels))

    def _command(self, folder: Path, lr: float, seed: int) -> Tuple[List[str], List[str]]:
        """The command of fairseq-train, and those of its flags that tell this training from others."""
        from .model import model_flags

        updates = -(-len(self.sets["train"]) // self.recipe.batch) * self.epochs
        values = dict(
            data=self.out / "data",
            out=folder,
            user_dir=USER_DIR,
            checkpoint=self.pretrained.checkpoint,
            arch=self.pretrained.arch,
            task=self.task.fairseq,
            seed=seed,
            lr=f"{lr:g}",
            epochs=self.epochs,
            batch=self.recipe.batch,
            updates=updates,
            warmup=round(WARM_UP * updates),
            classes=len(self.task.labels) or 1,
            regression="" if self.task.labels else "--regression-target",
            positions=self.pretrained.longest,
        )
        words = fill(self.args.template, **values)
        place = words.index("--arch")
        model = model_flags(self.pretrained.arch, self.pretrained.flags)
        flags = [*words[place:], *model, *self.recipe.train_flags, *self.args.flags]
        return words[1:place], flags

    def _launch(
        self, folder: Path, command: Sequence[str], flags: Sequence[str], seed: int, lock: Optional[int], label: str
    ) -> None:
        """Trains, and writes the record and the predictions; the checkpoint goes."""
        import torch

        from .model import predict

        checkpoints, log = folder / "checkpoints", folder / "train.log"
        shutil.rmtree(checkpoints, ignore_errors=True)
        log.unlink(missing_ok=True)
        record = {"command": self.args.command, "arch": self.pretrained.arch, "seed": seed, "flags": " ".join(flags)}
        record["threads"] = os.environ.get("OMP_NUM_THREADS", os.cpu_count())
        write_record(folder / "run.json", record, ROOT, continues=False)
        alone = ["--distributed-world-size", "1"] if torch.cuda.device_count() > 1 else []
        words = [*launch.torchrun(launch.Machines(), 1), *command, *flags, *alone]
        updates = int(flags[flags.index("--total-num-update") + 1])
        launch.train(words, log, lock, updates, label, "give a recipe with a smaller batch")
        done = epochs_in(checkpoints / LAST)  # an update that overflows in half precision does not count, an epoch does
        if done < self.epochs:
            raise Failure(f"it ended after {done} of {self.epochs} epochs: leave out the flags that end it early")
        predictions = predict(checkpoints / LAST, self.out / "data")
        write_text(folder / "predictions.txt", "".join(f"{line}\n" for line in predictions))
        shutil.rmtree(checkpoints)


def set_by(template: Sequence[str]) -> List[str]:
    """The flags of fairseq-train that the command computes, or that stay as they are."""
    return [flag for flag, value in zip(template, template[1:]) if flag.startswith("--") and "{" in value] + [*FIXED]


def main(argv: List[str]) -> None:
    tests, failed = [], 0
    cells = parse(argv, __doc__)
    tunings = [FineTuning(args) for args in cells]
    files: Dict[Path, Path] = {}  # of results, to their runs
    for tuning in tunings:
        other = files.setdefault(tuning.file.resolve(), tuning.args.run)
        if other != tuning.args.run:
            raise Failure(
                f"{other} and {tuning.args.run} would both write {tuning.file}: give one alone, with --variant"
            )
    for tuning in tunings:
        try:
            result = tuning.run()
        except Failure as error:
            if len(cells) == 1:
                raise
            say(f"{tuning.task.name}, {tuning.args.run}: not finished: {error}")
            failed += 1
            continue
        name = f"{System(result['arch'], result['variant']).title} pretrained with seed {result['seed']}"
        tests += [{"name": name, "subset": test, "scores": entry["scores"]} for test, entry in result["tests"].items()]
        say(f"{tuning.task.name}: {result['tests'][tuning.task.name]['settings']}")
    if tests:
        print(table(tests))
    if failed:
        raise Failure(f"{failed} of {len(cells)} are not finished: see above")


if __name__ == "__main__":
    run(main)
