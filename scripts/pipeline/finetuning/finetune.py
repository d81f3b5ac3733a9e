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
import shlex
import shutil
import statistics
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..command import Failure, Parser, check_name, run, say, script_name, split_at_dashes, to_path, whole_number
from ..files import read_as, read_json, read_lines, sha256, write_text
from ..lock import locked
from ..paths import ROOT, USER_DIR
from ..provenance import RECORD, write_record
from ..recipes import BATCH, load_recipe
from ..results.collect import curve_entry, training_entry
from ..results.file import FORMAT, read_result, set_aside, without_folders, write_result
from ..scoring.metrics.labels import signature
from ..scoring.table import table
from ..settings import RESERVED, Flags, check_flags, flags_in, words_in
from ..steps import Steps
from ..systems import System
from ..training import launch
from ..training.checkpoints import LAST, epochs_in
from ..training.log import read_log
from .grid import Trained, best_rate, median, replaces
from .pretrained import Pretrained
from .tasks import GLUE, SCM, TASKS

WARM_UP = 0.06
"""The part of the updates in which the learning rate rises."""

FIXED = (
    *(*RESERVED, *(f"--{name}" for name in BATCH), "--required-batch-size-multiple", "--max-epoch"),
    *("--regression-target", "--init-token", "--separator-token", "--classification-head-name", "--ranking-head-name"),
    *("--criterion", "--num-classes", "--max-positions", "--lr", "--warmup-updates", "--total-num-update"),
    "--finetune-from-model",
)
"""Flags that are set here, or that would contradict the schedule of learning rates or the task."""

FOLDERS = {"--run": "RUN", "--data": "DATA", "--out": "OUT", "--results": "RESULTS"}
"""Options that name folders, and what stands for them in a result file."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> List[argparse.Namespace]:
    """The options for each run and task, and the words behind ``--`` as ``flags``."""
    options, flags = split_at_dashes(argv)
    parser, names = Parser(doc), [*TASKS, "GLUE"]
    more: Dict[str, Any] = dict(nargs="+", action="extend")
    parser.add_argument("task", nargs="+", choices=names, metavar="TASK", help=f"{', '.join(names)} (all its tasks)")
    runs = "outputs of scripts/train.sh and scripts/average.sh"
    parser.add_argument("--run", type=to_path, required=True, help=runs, **more)
    parser.add_argument("--data", type=to_path, required=True, help="folder with the files of the task")
    parser.add_argument("--out", type=to_path, help="output folder (default: RUN/finetuned/TASK)")
    parser.add_argument("--results", type=to_path, help="folder of the result file (default: the output folder)")
    parser.add_argument("--recipe", help="grid and flags (default: glue, of SCM scm)")
    rates = "rates to try (default: the recipe's)"
    parser.add_argument("--learning-rates", type=float, metavar="X", help=rates, **more)
    seeds = "seeds of each rate (default: the recipe's)"
    parser.add_argument("--seeds", type=whole_number(0), metavar="N", help=seeds, **more)
    parser.add_argument("--epochs", type=whole_number(1), metavar="N", help="epochs (default: the recipe's)")
    parser.add_argument("--variant", default="", help="name of the pretrained model among others of its architecture")
    args = parser.parse_args(options)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    tasks = [name for task in args.task for name in ([each.name for each in GLUE] if task == "GLUE" else [task])]
    cells = list(dict.fromkeys((run, task) for run in args.run for task in tasks))
    if args.out and len(cells) > 1:
        parser.error("--out is the folder of one task and one run: leave it out")
    common = {**vars(args), "flags": flags}
    return [argparse.Namespace(**{**common, "run": run, "task": task}) for run, task in cells]


class FineTuning:
    """The trainings of one task from one pretrained model.

    Args:
        args: one of the results of :func:`parse`.

    Raises:
        Failure: the run, the recipe or the files of the task cannot be used.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.task = args, TASKS[args.task]
        self.recipe = load_recipe(args.recipe or ("scm" if self.task is SCM else "glue"))
        if not self.recipe.grid:
            raise Failure(f"the recipe {self.recipe.name} is for scripts/train.sh: it has no [grid]")
        self.given = flags_in(args.flags)
        check_flags(self.given, FIXED)
        self.out: Path = args.out or args.run / "finetuned" / self.task.name
        for path in (args.run, self.out):
            check_name(str(path.absolute()))
        self.pretrained = Pretrained(args.run)
        name, _, variant = args.run.resolve().parent.name.partition("-")  # of scripts/reproduce.sh: ARCH-VARIANT/seedN
        variant = args.variant or (variant if name == self.pretrained.arch else "")
        self.system = System(self.pretrained.arch, variant)
        name = f"{self.recipe.name}_{self.task.name}-{self.system.name}-seed{self.pretrained.seed}.json"
        self.file = (args.results or self.out) / name
        rates, seeds = args.learning_rates or map(float, self.recipe.grid.lr), args.seeds or self.recipe.grid.seed
        self.grid = [(lr, seed) for lr in dict.fromkeys(rates) for seed in dict.fromkeys(seeds)]
        self.epochs = int(args.epochs or self.recipe.flags["--max-epoch"][0])
        self.batch = int(self.recipe.flags["--batch-size"][0])
        self.examples = " ".join([self.task.settings, *map(sha256, self.task.files(args.data))])
        self.sets = self.task.read(args.data)
        for split, found in self.sets.items():
            if not found:
                raise Failure(f"{args.data}: {self.task.name} has no examples for the set '{split}': give more")
        self.labels = [example.label for example in self.sets["valid"]]

    def run(self) -> Dict[str, Any]:
        """Does the trainings that are not done yet, and writes the result file; returns its content.

        Raises:
            Failure: a training fails.
        """
        logging.disable(logging.INFO)  # what fairseq says
        with locked(self.out):
            steps, files, model = Steps(self.out), self.pretrained.files(), self.pretrained.entry()
            for line in (self.examples, *files, f"at most {self.pretrained.longest} tokens"):
                steps.setting(line)
            steps.step("encode", ["data/input0", "data/shortened.json"], self._encode)
            done = []
            for number, (lr, seed) in enumerate(self.grid, 1):
                if self.pretrained.files() != files:
                    raise Failure(f"{self.args.run}: its model has changed meanwhile: call again to tune the new one")
                label = f"{self.task.name} {number} of {len(self.grid)}"
                done.append(self._train(lr, seed, steps.settings, label))
            result = self._result(done, model)
        if self.file.is_file() and not replaces(result, read_result(self.file)):
            set_aside(self.file)
        write_result(result, self.file)
        return result

    def _encode(self) -> None:
        from .data import encode

        encode(self.task, self.sets, self.pretrained.run, self.out / "data", self.pretrained.longest)

    def _train(self, lr: float, seed: int, settings: str, label: str) -> Trained:
        """One training, its predictions and its scores."""
        folder = self.out / f"lr{lr:g}-seed{seed}"
        flags = self._flags(lr, seed)
        steps = Steps(folder)
        steps.settings = f"{settings}finetune {' '.join(words_in(flags))}\n"
        steps.step("finetune", ["predictions.txt", "train.log"], lambda: self._launch(folder, flags, label))
        predictions = read_lines(folder / "predictions.txt")
        if len(predictions) != len(self.labels):
            raise Failure(f"{folder}/predictions.txt is damaged: remove {folder} and call again")
        return Trained(folder, lr, seed, self.task.scores(predictions, self.labels))

    def _flags(self, lr: float, seed: int) -> Flags:
        """The flags of fairseq-train that tell one training from others."""
        updates = -(-len(self.sets["train"]) // self.batch) * self.epochs
        return {
            **{**self.recipe.flags, "--arch": [self.pretrained.arch], **self.pretrained.model_flags},
            **{"--task": [self.task.fairseq], "--criterion": [self.task.fairseq], "--seed": [str(seed)]},
            **({} if self.task.labels else {"--regression-target": []}),
            **{"--num-classes": [str(len(self.task.labels) or 1)], "--init-token": ["0"], "--separator-token": ["2"]},
            **{"--max-positions": [str(self.pretrained.longest)], "--required-batch-size-multiple": ["1"]},
            **{"--lr": [f"{lr:g}"], "--warmup-updates": [str(round(WARM_UP * updates))]},
            **{"--total-num-update": [str(updates)], "--max-epoch": [str(self.epochs)]},
            **self.given,
        }

    def _launch(self, folder: Path, flags: Flags, label: str) -> None:
        """Trains, and writes the record and the predictions; the checkpoint goes."""
        import torch

        from .predict import predict

        checkpoints, log, words = folder / "checkpoints", folder / "train.log", words_in(flags)
        shutil.rmtree(checkpoints, ignore_errors=True)
        log.unlink(missing_ok=True)
        record = {"command": self.args.command, "arch": self.pretrained.arch, "seed": flags["--seed"][0]}
        record |= {"flags": " ".join(words), "threads": os.environ.get("OMP_NUM_THREADS", os.cpu_count())}
        write_record(folder / RECORD, record, ROOT, continues=False)
        command = ["fairseq-train", str(self.out / "data"), "--user-dir", str(USER_DIR), "--save-dir", str(checkpoints)]
        command += ["--finetune-from-model", str(self.pretrained.checkpoint), "--save-interval", str(self.epochs)]
        command += ["--save-interval-updates", "1000000", "--no-epoch-checkpoints", "--no-save-optimizer-state"]
        command += ["--disable-validation", "--log-format", "json", "--log-interval", "10", *words]
        command += ["--distributed-world-size", "1"] if torch.cuda.device_count() > 1 else []
        updates, smaller = int(flags["--total-num-update"][0]), "give a recipe with a smaller batch"
        launch.train(launch.Machines(), 1, command, log, updates, label, smaller)
        done = epochs_in(checkpoints / LAST)  # an update that overflows in half precision does not count, an epoch does
        if done < self.epochs:
            raise Failure(f"it ended after {done} of {self.epochs} epochs: leave out the flags that end it early")
        predictions = predict(checkpoints / LAST, self.out / "data")
        write_text(folder / "predictions.txt", "".join(f"{line}\n" for line in predictions))
        shutil.rmtree(checkpoints)

    def _result(self, done: Sequence[Trained], model: Dict[str, Any]) -> Dict[str, Any]:
        """The content of the result file. Costs and curves are those of the training in the middle of the best rate."""
        best = best_rate(done, self.task.metrics[0])
        middle = best[(len(best) - 1) // 2].folder
        log, record = read_log(middle / "train.log", loss="loss"), read_json(middle / RECORD)
        usual = load_recipe(self.recipe.task.name).flags
        flags = {name: words for name, words in self.recipe.flags.items() if usual.get(name) != words}
        own = {name: words for name, words in {**flags, **self.given}.items() if name not in FIXED}
        changed = " ".join([self.examples, f"epochs {self.epochs} batch {self.batch}", *words_in(own)])
        remedy = f"remove {self.out / 'data'} and call again"
        shortened = read_as(self.out / "data/shortened.json", Dict[str, int], remedy)
        most_frequent = statistics.mode(example.label for example in self.sets["train"])
        scores = {key: {"score": median(best, key), "signature": signature()} for key in self.task.metrics}
        return {
            "format": FORMAT,
            "recipe": f"{self.recipe.name}_{self.task.name}",
            "variant": self.system.variant,
            "arch": self.system.arch,
            "seed": self.pretrained.seed,
            "settings": f"{self.pretrained.settings}finetune {changed}\n",
            "entries": {},
            "pretrained": model,
            "run": {**record, "command": without_folders(record["command"], FOLDERS)},
            "training": training_entry(log, 1),
            "data": {"examples": {name: len(found) for name, found in self.sets.items()}, "shortened": shortened},
            "curve": curve_entry(log),
            "grid": [trained.cell for trained in done],
            "tests": {
                self.task.name: {
                    "subset": "dev",
                    "sentences": len(self.labels),
                    "settings": f"median of {len(best)} seed{'s' if len(best) > 1 else ''}, "
                    f"learning rate {best[0].learning_rate:g}",
                    "scores": scores,
                    "chance": self.task.scores([most_frequent] * len(self.labels), self.labels),
                }
            },
        }


def main(argv: List[str]) -> None:
    tests, failed = [], 0
    tunings = [FineTuning(args) for args in parse(argv, __doc__)]
    if len({tuning.file.resolve() for tuning in tunings}) < len(tunings):
        raise Failure("two runs would write one result file: give each alone, with --variant")
    for tuning in tunings:
        try:
            result = tuning.run()
        except Failure as error:
            if len(tunings) == 1:
                raise
            say(f"{tuning.task.name}, {tuning.args.run}: not finished: {error}")
            failed += 1
            continue
        name, (test,) = f"{tuning.system.title} pretrained with seed {result['seed']}", result["tests"].values()
        tests.append({"name": name, "subset": tuning.task.name, "scores": test["scores"]})
        say(f"{tuning.task.name}: {test['settings']}")
    if tests:
        print(table(tests))
    if failed:
        raise Failure(f"{failed} of {len(tunings)} are not finished: see above")


if __name__ == "__main__":
    run(main)
