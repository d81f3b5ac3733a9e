"""Fine-tunes pretrained masked language models on tasks, and evaluates them on the validation sets.

Examples:

    scripts/finetune.sh TASK... --run RUN... --data FOLDER [options] [-- fairseq-train flags]
    scripts/finetune.sh CoLA RTE --run runs/mlm_books/roformer_mlm_small/seed1 --data ~/glue
    scripts/finetune.sh GLUE --run runs/mlm_books/*/seed1 --data ~/glue --results results

TASK is CoLA, MRPC, RTE, SST-2 or STS-B, and FOLDER has TASK/train.tsv and TASK/dev.tsv, plain or with .gz. GLUE stands
for these five. Or TASK is SCM, and FOLDER has input.jsonl: Chinese text without labels, to try long text.
RUN is the output of train.sh and average.sh. When a training fails, the other runs and tasks go on.

The text is split with the subwords of the pretraining, and shortened to the length of its blocks. Each learning rate is
tried with each seed; the rate with the best median over seeds counts. RUN/finetuned/TASK has the predictions of each
training, and one result file. Trainings that are done are skipped; one that was killed begins anew.
"""

import argparse
import logging
import os
import shlex
import shutil
import statistics
from operator import itemgetter
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from ..command import Failure, Parser, check_name, run, say, script_name, split_at_dashes, to_path, whole_number
from ..files import read_json, read_lines, sha256, write_text
from ..lock import locked
from ..paths import ROOT, USER_DIR
from ..provenance import RECORD, write_record
from ..recipes import BATCH, load_recipe
from ..results.collect import curve_entry, training_entry
from ..results.file import FORMAT, Result, read_result, set_aside, without_folders, write_result
from ..scoring.metrics.labels import signature
from ..scoring.table import table
from ..settings import RESERVED, Flags, check_flags, flags_in, words_in
from ..steps import Steps
from ..systems import System
from ..training import launch
from ..training.checkpoints import LAST, epochs_in
from ..training.log import read_log
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

FOLDERS = {"--run": "RUN", "--data": "DATA", "--results": "RESULTS"}
"""Options that name folders, and what stands for them in a result file."""

Cell = Dict[str, float]
"""A training of the grid in a result file: learning rate, seed and metrics."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options; ``flags`` are the words behind ``--``, and ``command`` is all of it."""
    words, flags = split_at_dashes(argv)
    parser, names = Parser(__doc__, "fairseq-train"), [*TASKS, "GLUE"]
    more: Dict[str, Any] = dict(nargs="+", action="extend")
    parser.add_argument("task", nargs="+", choices=names, metavar="TASK", help=f"{', '.join(names)} (all its tasks)")
    runs = "outputs of scripts/train.sh and scripts/average.sh"
    parser.add_argument("--run", type=to_path, required=True, help=runs, **more)
    parser.add_argument("--data", type=to_path, required=True, help="folder with the files of the tasks")
    parser.add_argument("--results", type=to_path, help="folder of the result files (default: RUN/finetuned/TASK)")
    parser.add_argument("--recipe", help="grid and flags (default: glue, of SCM scm)")
    rates = "rates to try (default: the recipe's)"
    parser.add_argument("--learning-rates", type=float, metavar="X", help=rates, **more)
    seeds = "seeds of each rate (default: the recipe's)"
    parser.add_argument("--seeds", type=whole_number(0), metavar="N", help=seeds, **more)
    parser.add_argument("--epochs", type=whole_number(1), metavar="N", help="epochs (default: the recipe's)")
    args = parser.parse_args(words)
    args.flags, args.command = flags, shlex.join([f"scripts/{script_name()}", *argv])
    return args


class FineTuning:
    """The trainings of one task from one pretrained model.

    Args:
        run: the model.
        args: the result of :func:`parse`.

    Raises:
        Failure: the run, the recipe or the files of the task cannot be used.
    """

    def __init__(self, run: Path, task: str, args: argparse.Namespace) -> None:
        self.args, self.task = args, TASKS[task]
        self.recipe = load_recipe(args.recipe or ("scm" if self.task is SCM else "glue"))
        if not self.recipe.grid:
            raise Failure(f"the recipe {self.recipe.name} is for scripts/train.sh: it has no [grid]")
        self.given = flags_in(args.flags)
        check_flags(self.given, FIXED)
        check_name(str(run.absolute()))
        self.pretrained, self.out = Pretrained(run), run / "finetuned" / task
        name, _, variant = run.resolve().parent.name.partition("-")  # of scripts/reproduce.sh: ARCH-VARIANT/seedN
        self.system = System(self.pretrained.arch, variant if name == self.pretrained.arch else "")
        self.name = f"{self.recipe.name}_{task}"
        result = f"{self.name}-{self.system.name}-seed{self.pretrained.seed}.json"
        self.file: Path = (args.results or self.out) / result
        rates, seeds = args.learning_rates or map(float, self.recipe.grid.lr), args.seeds or self.recipe.grid.seed
        self.grid = [(lr, seed) for lr in dict.fromkeys(rates) for seed in dict.fromkeys(seeds)]
        self.epochs = int(args.epochs or self.recipe.flags["--max-epoch"][0])
        self.batch = int(self.recipe.flags["--batch-size"][0])
        self.examples = " ".join([self.task.settings, *map(sha256, self.task.files(args.data))])
        self.sets = self.task.read(args.data)
        if not all(self.sets.values()):
            raise Failure(f"{args.data}: {task} has no examples for one of its sets: give more")
        self.labels = [example.label for example in self.sets["valid"]]

    def run(self) -> Dict[str, Any]:
        """Does the trainings that are not done yet, and writes the result file; returns its content.

        Raises:
            Failure: a training fails.
        """
        with locked(self.out):
            steps, files, model = Steps(self.out), self.pretrained.files(), self.pretrained.entry()
            for line in (self.examples, *files, f"at most {self.pretrained.longest} tokens"):
                steps.setting(line)
            steps.step("encode", ["data/input0"], self._encode)
            cells = []
            for number, (lr, seed) in enumerate(self.grid, 1):
                if self.pretrained.files() != files:
                    raise Failure(f"{self.pretrained.run}: its model has changed meanwhile: call again to tune the new")
                cells.append(self._train(lr, seed, steps.settings, f"{self.task.name} {number} of {len(self.grid)}"))
            result = self._result(cells, model)
        if self.file.is_file() and not replaces(result, read_result(self.file)):
            set_aside(self.file)
        write_result(result, self.file)
        return result

    def _encode(self) -> None:
        from .data import encode

        encode(self.task, self.sets, self.pretrained.run, self.out / "data", self.pretrained.longest)

    def _folder(self, lr: float, seed: float) -> Path:
        return self.out / f"lr{lr:g}-seed{seed}"

    def _train(self, lr: float, seed: int, settings: str, label: str) -> Cell:
        """One training, its predictions and its scores."""
        folder, flags = self._folder(lr, seed), self._flags(lr, seed)
        steps = Steps(folder)
        steps.settings = f"{settings}finetune {' '.join(words_in(flags))}\n"
        steps.step("finetune", ["predictions.txt", "train.log"], lambda: self._launch(folder, flags, label))
        scores = self.task.scores(read_lines(folder / "predictions.txt"), self.labels)
        return {"learning_rate": lr, "seed": seed, **scores}

    def _flags(self, lr: float, seed: int) -> Flags:
        """The flags of fairseq-train that tell one training from others."""
        updates = -(-len(self.sets["train"]) // self.batch) * self.epochs
        task: Flags = {"--task": [self.task.fairseq], "--criterion": [self.task.fairseq], "--seed": [str(seed)]}
        if not self.task.labels:
            task["--regression-target"] = []
        numbers = {
            "--num-classes": len(self.task.labels) or 1,
            "--init-token": 0,
            "--separator-token": 2,
            "--max-positions": self.pretrained.longest,
            "--required-batch-size-multiple": 1,
            "--lr": f"{lr:g}",
            "--warmup-updates": round(WARM_UP * updates),
            "--total-num-update": updates,
            "--max-epoch": self.epochs,
        }
        model = {"--arch": [self.pretrained.arch], **self.pretrained.model_flags}
        schedule = {name: [str(value)] for name, value in numbers.items()}
        return {**self.recipe.flags, **model, **task, **schedule, **self.given}

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

    def _result(self, cells: List[Cell], model: Dict[str, Any]) -> Dict[str, Any]:
        """The content of the result file. Costs and curves are those of the training in the middle of the best rate."""
        best = best_cells(cells, self.task.metrics[0])
        rate, middle = best[0]["learning_rate"], best[(len(best) - 1) // 2]
        folder = self._folder(rate, middle["seed"])
        log, record = read_log(folder / "train.log", loss="loss"), read_json(folder / RECORD)
        usual = load_recipe(self.recipe.task.name).flags
        flags = {name: words for name, words in self.recipe.flags.items() if usual.get(name) != words}
        own = {name: words for name, words in {**flags, **self.given}.items() if name not in FIXED}
        changed = " ".join([self.examples, f"epochs {self.epochs} batch {self.batch}", *words_in(own)])
        most_frequent = statistics.mode(example.label for example in self.sets["train"])
        medians = {key: round(statistics.median(cell[key] for cell in best), 2) for key in self.task.metrics}
        test = {
            "subset": "dev",
            "sentences": len(self.labels),
            "settings": f"median of {len(best)} seed{'s' if len(best) > 1 else ''}, learning rate {rate:g}",
            "scores": {key: {"score": score, "signature": signature()} for key, score in medians.items()},
            "chance": self.task.scores([most_frequent] * len(self.labels), self.labels),
        }
        return {
            "format": FORMAT,
            "recipe": self.name,
            "variant": self.system.variant,
            "arch": self.system.arch,
            "seed": self.pretrained.seed,
            "settings": f"{self.pretrained.settings}finetune {changed}\n",
            "pretrained": model,
            "run": {**record, "command": without_folders(record["command"], FOLDERS)},
            "training": training_entry(log, 1),
            "data": {"examples": {name: len(found) for name, found in self.sets.items()}},
            "curve": curve_entry(log),
            "grid": cells,
            "tests": {self.task.name: test},
        }


def best_cells(cells: Sequence[Cell], metric: str) -> List[Cell]:
    """The trainings with the learning rate that has the best median; of equal ones, the first. The best comes last."""
    rates = dict.fromkeys(cell["learning_rate"] for cell in cells)
    groups = [[cell for cell in cells if cell["learning_rate"] == rate] for rate in rates]
    best = max(groups, key=lambda group: statistics.median(cell[metric] for cell in group))
    return sorted(best, key=itemgetter(metric))


def replaces(new: Mapping[str, Any], old: Result) -> bool:
    """Whether a result has all that an older one has: the same model and settings, and each of its trainings."""
    models = [pretrained.get("checkpoint") for pretrained in (new["pretrained"], old.pretrained)]
    grids = [{(cell["learning_rate"], cell["seed"]) for cell in grid} for grid in (new["grid"], old.grid)]
    same = models[1] in (None, models[0]) and new["settings"] == old.settings  # old files do not name the model
    return same and grids[0] >= grids[1]


def main(argv: List[str]) -> None:
    args = parse(argv)
    logging.disable(logging.INFO)  # what fairseq says
    tasks = [name for task in args.task for name in ([each.name for each in GLUE] if task == "GLUE" else [task])]
    tunings = [FineTuning(run, task, args) for run in dict.fromkeys(args.run) for task in dict.fromkeys(tasks)]
    if len({tuning.file.resolve() for tuning in tunings}) < len(tunings):
        raise Failure("two runs would write one result file: give each alone, with --results of its own")
    rows = []
    for tuning in tunings:
        try:
            (test,) = tuning.run()["tests"].values()
        except Failure as error:
            if len(tunings) == 1:
                raise
            say(f"{tuning.task.name}, {tuning.pretrained.run}: not finished: {error}")
            continue
        name = f"{tuning.system.title} pretrained with seed {tuning.pretrained.seed}"
        rows.append((name, tuning.task.name, test["scores"]))
        say(f"{tuning.task.name}: {test['settings']}")
    if rows:
        print(table(rows))
    if len(rows) < len(tunings):
        raise Failure(f"{len(tunings) - len(rows)} of {len(tunings)} are not finished: see above")


if __name__ == "__main__":
    run(main)
