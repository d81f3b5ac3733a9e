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
training, and one result file. What is done is skipped; a training that was killed begins anew.
"""

import argparse
import logging
import shlex
import shutil
import statistics
from operator import itemgetter
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..command import Failure, Parser, say, script_name, to_path, whole_number
from ..device import threads
from ..experiment import Experiment, System, table_of, walk
from ..files import read_lines, sha256, write_text
from ..lock import locked
from ..paths import USER_DIR
from ..provenance import RECORD, write_record
from ..recipes import BATCH, load_recipe
from ..results import Result, collect
from ..scoring.metrics.labels import signature
from ..settings import RESERVED, Flags, check_flags, flags_in, words_in
from ..steps import Steps
from ..training import launch
from ..training.checkpoints import LAST
from .pretrained import Pretrained
from .tasks import GLUE, SCM, TASKS

WARM_UP = 0.06
"""The part of the updates in which the learning rate rises."""

FIXED = (
    *(*RESERVED, *(f"--{name}" for name in BATCH), "--required-batch-size-multiple"),
    *("--regression-target", "--init-token", "--separator-token", "--classification-head-name", "--ranking-head-name"),
    *("--criterion", "--num-classes", "--max-positions", "--lr", "--warmup-updates", "--total-num-update"),
    *("--finetune-from-model", "--patience"),
)
"""Flags that are set here, that would contradict the schedule of learning rates or the task, or that need a validation,
of which a fine-tuning has none."""

IN_RECIPES = ("--task", "--criterion", "--max-epoch", "--batch-size")
"""Those of them that a recipe sets itself."""

Cell = Dict[str, float]
"""A training of the grid in a result file: learning rate, seed and metrics."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options; ``command`` is the command line."""
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
    args = parser.parse_args(argv)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    return args


class FineTuning(Experiment):
    """A task, learned by one pretrained model with each learning rate and seed of a grid."""

    def __init__(self, run: Path, task: str, args: argparse.Namespace) -> None:
        self.args, self.task = args, TASKS[task]
        recipe = load_recipe(args.recipe or ("scm" if self.task is SCM else "glue"))
        if not recipe.grid:
            raise Failure(f"the recipe {recipe.name} has no [grid]: give it to scripts/train.sh, or extend glue")
        self.given = flags_in(args.flags)
        check_flags(self.given, FIXED)
        check_flags(recipe.flags, set(FIXED) - set(IN_RECIPES))
        self.pretrained, folder = Pretrained(run), run / "finetuned" / task
        name, _, variant = run.resolve().parent.name.partition("-")  # of scripts/reproduce.sh: ARCH-VARIANT/seedN
        system = System(self.pretrained.arch, variant if name == self.pretrained.arch else "")
        file = f"{recipe.name}_{task}-{system.name}-seed{self.pretrained.seed}.json"
        places = (folder / "data", folder, (args.results or folder) / file)
        super().__init__(recipe, system, self.pretrained.seed, *places, subsets={"valid": task})
        rates, seeds = args.learning_rates or map(float, recipe.grid.lr), args.seeds or recipe.grid.seed
        self.grid = {(lr, seed): folder / f"lr{lr:g}-seed{seed}" for lr in rates for seed in seeds}
        """The folder of each training, by its learning rate and seed."""
        self.epochs = int(args.epochs or recipe.flags["--max-epoch"][0])
        self.batch = int(recipe.flags["--batch-size"][0])
        self.examples = " ".join([self.task.settings, *map(sha256, self.task.files(args.data))])
        self.sets = self.task.read(args.data)
        self.labels = [example.label for example in self.sets["valid"]]
        most_frequent = statistics.mode(example.label for example in self.sets["train"])
        self.chance = self.task.scores([most_frequent] * len(self.labels), self.labels)
        self.files, self.model = self.pretrained.files(), self.pretrained.entry()
        lines = [self.examples, *self.files, f"at most {self.pretrained.longest} tokens"]
        self.encoding = "".join(f"{line}\n" for line in lines)
        """The settings of the encoding."""

    @property
    def name(self) -> str:
        return f"{self.system.title} pretrained with seed {self.seed}"

    def run(self) -> None:
        with locked(self.folder):
            self._encode()
            for lr, seed in self.grid:
                self._train(lr, seed)
            self._collect()

    def _encode(self) -> None:
        from .data import encode

        what = (self.task, self.sets, self.pretrained.run, self.data, self.pretrained.longest)
        Steps(self.folder, self.encoding).step("encode", ["data/input0"], lambda: encode(*what))

    def _train(self, lr: float, seed: int) -> None:
        if self.pretrained.files() != self.files:
            raise Failure(f"{self.pretrained.run}: its model has changed meanwhile: call again to tune the new")
        folder, flags = self.grid[lr, seed], self._flags(lr, seed)
        steps = Steps(folder, f"{self.encoding}step encode\nfinetune {' '.join(words_in(flags))}\n")
        steps.step("finetune", ["predictions.txt", "train.log"], lambda: self._launch(folder, flags))

    def _flags(self, lr: float, seed: int) -> Flags:
        """The flags of fairseq-train that tell one training from others."""
        updates = -(-len(self.sets["train"]) // self.batch) * self.epochs
        flags: Dict[str, List[Any]] = {
            **self.pretrained.model_flags,
            **self.recipe.flags,
            "--arch": [self.pretrained.arch],
            "--task": [self.task.fairseq],
            "--criterion": [self.task.fairseq],
            "--seed": [seed],
            **({} if self.task.labels else {"--regression-target": []}),
            "--num-classes": [len(self.task.labels) or 1],
            "--init-token": [0],
            "--separator-token": [2],
            "--max-positions": [self.pretrained.longest],
            "--required-batch-size-multiple": [1],
            "--lr": [f"{lr:g}"],
            "--warmup-updates": [round(WARM_UP * updates)],
            "--total-num-update": [updates],
            "--max-epoch": [self.epochs],
            **self.given,
        }
        return {name: list(map(str, words)) for name, words in flags.items()}

    def _launch(self, folder: Path, flags: Flags) -> None:
        """Trains, and writes the record and the predictions; the checkpoint goes."""
        from .predict import predict

        checkpoints, log, words = folder / "checkpoints", folder / "train.log", words_in(flags)
        shutil.rmtree(checkpoints, ignore_errors=True)
        log.unlink(missing_ok=True)
        record = {"command": self.args.command, "arch": self.pretrained.arch, "seed": flags["--seed"][0]}
        record |= {"flags": " ".join(words), "threads": threads()}
        write_record(folder / RECORD, record, continues=False)
        command = ["fairseq-train", str(self.data), "--user-dir", str(USER_DIR), "--save-dir", str(checkpoints)]
        command += ["--finetune-from-model", str(self.pretrained.checkpoint), "--save-interval", str(self.epochs)]
        command += ["--save-interval-updates", "1000000", "--no-epoch-checkpoints", "--no-save-optimizer-state"]
        command += ["--disable-validation", "--log-format", "json", "--log-interval", "10", *words]
        updates, smaller = int(flags["--total-num-update"][0]), "give a recipe with a smaller batch"
        launch.train(launch.Machines(), 1, command, log, updates, f"{self.task.name} {folder.name}", smaller)
        predictions = predict(checkpoints / LAST, self.data)
        write_text(folder / "predictions.txt", "".join(f"{line}\n" for line in predictions))
        shutil.rmtree(checkpoints)

    @property
    def settings(self) -> str:
        """The settings that tell this fine-tuning from others, apart from its grid."""
        usual = load_recipe(self.recipe.task.name).flags
        flags = {name: words for name, words in self.recipe.flags.items() if usual.get(name) != words}
        own = {name: words for name, words in {**flags, **self.given}.items() if name not in FIXED}
        changed = " ".join([self.examples, f"epochs {self.epochs} batch {self.batch}", *words_in(own)])
        return f"{self.pretrained.settings}finetune {changed}\n"

    def _has_made(self, result: Result) -> bool:
        grid = {(cell["learning_rate"], cell["seed"]) for cell in result.grid}
        model = result.pretrained.get("checkpoint", self.model["checkpoint"])  # older files do not name it
        return (result.settings, model, grid) == (self.settings, self.model["checkpoint"], set(self.grid))

    def _collected(self, unfinished: str = "") -> Dict[str, Any]:
        """The content of the result file. Costs and curves are those of the training in the middle of the best rate."""
        if unfinished:  # without its whole grid it has no result
            raise Failure(unfinished)
        cells: List[Cell] = []
        for (lr, seed), folder in self.grid.items():
            scores = self.task.scores(read_lines(folder / "predictions.txt"), self.labels)
            cells.append({"learning_rate": lr, "seed": seed, **scores})
        best = best_cells(cells, self.task.metrics[0])
        rate, middle = best[0]["learning_rate"], best[(len(best) - 1) // 2]
        medians = {key: round(statistics.median(cell[key] for cell in best), 2) for key in self.task.metrics}
        test = {
            "subset": "dev",
            "sentences": len(self.labels),
            "settings": f"median of {len(best)} seed{'s' if len(best) > 1 else ''}, learning rate {rate:g}",
            "scores": {key: {"score": score, "signature": signature()} for key, score in medians.items()},
            "chance": self.chance,
        }
        say(f"{self.task.name}: {test['settings']}")
        training, recipe = self.grid[rate, int(middle["seed"])], f"{self.recipe.name}_{self.task.name}"
        made = collect(training, self.data, recipe, {}, self.system.variant, loss="loss")
        made["training"]["averaged"] = 1
        made["run"] |= {"from": self.pretrained.start} if self.pretrained.start else {}
        return {
            **made,
            "seed": self.seed,
            "settings": self.settings,
            "pretrained": self.model,
            "data": {"examples": {name: len(found) for name, found in self.sets.items()}},
            "grid": cells,
            "tests": {self.task.name: test},
        }


def best_cells(cells: Sequence[Cell], metric: str) -> List[Cell]:
    """The trainings with the learning rate that has the best median; of equal ones, the first. The best comes last."""
    rates = dict.fromkeys(cell["learning_rate"] for cell in cells)
    groups = [[cell for cell in cells if cell["learning_rate"] == rate] for rate in rates]
    best = max(groups, key=lambda group: statistics.median(cell[metric] for cell in group))
    return sorted(best, key=itemgetter(metric))


def main(argv: List[str]) -> None:
    args = parse(argv)
    logging.disable(logging.INFO)  # what fairseq says
    tasks = [name for task in args.task for name in ([each.name for each in GLUE] if task == "GLUE" else [task])]
    tunings = [FineTuning(run, task, args) for run in dict.fromkeys(args.run) for task in dict.fromkeys(tasks)]
    if len({tuning.file.resolve() for tuning in tunings}) < len(tunings):
        raise Failure("two runs would write one result file: give each alone, with --results of its own")
    walk(tunings)
    if done := [tuning for tuning in tunings if tuning.is_finished()]:
        print(table_of(done))
    if unfinished := [str(tuning.folder) for tuning in tunings if tuning not in done]:
        raise Failure(f"not finished: {'; '.join(unfinished)}: see above; call again to go on")
