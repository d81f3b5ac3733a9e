"""One training step with fairseq's own ``Trainer``: forward, loss, backward, gradient norm, optimizer."""

import argparse
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch
from fairseq import utils
from fairseq.trainer import Trainer

from ..command import Failure, whole_number
from ..recipes import load_recipe
from ..settings import words_in
from ..tasks import TASKS
from ..training.fairseq_options import parse
from .measuring import PRECISIONS, compared, interleaved, peak_memory, peaks, profiled
from .models import about, build_model, configure, dictionary, flops, make_batch, make_task, same_parameters, size_of

COMPILED = "+compile"

SCHEDULE = ["--total-num-update", "1000000", "--warmup-updates", "10000", "--lr", "1e-4"]
"""What a recipe whose learning rate falls to 0 by the last update may leave open. It changes no time."""


class Candidate(NamedTuple):
    """A candidate: ``ARCH[:CRITERION[:OPTIMIZER]][@PRECISION][+compile]`` on the command line.

    In place of all up to ``@``, ``stock`` is fairseq's own, of the size of the other candidates.
    """

    name: str
    arch: str
    criterion: str
    optimizer: str
    precision: str
    compiled: bool
    """Whether the model goes through ``torch.compile``."""

    @classmethod
    def parse(cls, text: str, task: str, precision: str = "fp32", size: str = "base") -> "Candidate":
        """The candidate that ``text`` describes; criterion and optimizer are by default those of the task's recipe."""
        system, _, own_precision = text.removesuffix(COMPILED).partition("@")
        stock = TASKS[task].stock.replace("_base:", f"_{size}:")
        arch, criterion, optimizer, *_ = [*(stock if system == "stock" else system).split(":"), "", ""]
        if (precision := own_precision or precision) not in PRECISIONS:
            raise Failure(f"unknown precision '{precision}' in '{text}'; there are: {' '.join(PRECISIONS)}")
        usual = load_recipe(task).train
        own = criterion or str(usual["criterion"]), optimizer or str(usual["optimizer"])
        return cls(text, arch, *own, precision, text.endswith(COMPILED))


def build_trainer(candidate: Candidate, args: argparse.Namespace, start: Optional[Trainer] = None) -> Trainer:
    """The trainer that ``fairseq-train`` would build, with the parameters of ``start`` as far as they fit.

    Args:
        args: ``task``, ``vocabulary``, ``flags`` and ``device``.
    """
    recipe = load_recipe(args.task).flags
    flags = SCHEDULE if recipe["--lr-scheduler"] == ["polynomial_decay"] else []
    flags = [*flags, "--task", args.task, *words_in(recipe), "--arch", candidate.arch]
    flags += ["--criterion", candidate.criterion, "--optimizer", candidate.optimizer, "--distributed-world-size", "1"]
    flags += ["--num-classes", "2"] if args.task == "sentence_prediction" else []
    flags += ["--cpu"] if args.device.type == "cpu" else []
    cfg = configure(parse([*flags, *args.flags, *(["--bf16"] if candidate.precision == "bf16" else [])]))
    utils.set_torch_seed(cfg.common.seed)
    task = make_task(cfg, dictionary(args.vocabulary))
    model, criterion = build_model(task, cfg), task.build_criterion(cfg.criterion)
    if start is not None:
        same_parameters(model, start.model)
    if candidate.precision == "autocast":
        # inside fairseq's own context, which would switch it off on a GPU
        criterion.forward = torch.autocast(args.device.type, dtype=torch.bfloat16)(criterion.forward)
    if candidate.compiled:
        model.compile()
    trainer = Trainer(cfg, task, model, criterion)
    trainer.save_checkpoint = lambda *_: None  # which it does when a step fails
    return trainer


def batch_of(args: argparse.Namespace) -> Dict[str, Any]:
    """The batch that the command line describes."""
    return make_batch(args.task, dictionary(args.vocabulary), args.tokens, args.sentences, args.length)


def first_step(candidate: Candidate, args: argparse.Namespace) -> Callable[[], Any]:
    """Builds a candidate, in a separate process; the result makes one step."""
    trainer, batch = build_trainer(candidate, args), batch_of(args)
    return lambda: loss_of_step(trainer, batch)


def loss_of_step(trainer: Trainer, batch: Dict[str, Any]) -> float:
    """Makes a training step; raises Failure if the memory of the GPU is full, which fairseq only logs."""
    done = trainer.train_step([batch])
    if done is None:
        raise Failure("out of memory: give fewer --tokens or --archs")
    return float(done["loss"])


def run(args: argparse.Namespace) -> Dict[str, Any]:
    """Measures training steps against the baseline's; also returns each candidate's loss in the last step."""
    texts = dict.fromkeys([args.baseline, *(args.archs or TASKS[args.task].archs)])
    archs = [re.split("[:@+]", text)[0] for text in texts]
    size_of_stock = size_of(archs) if "stock" in archs else "base"
    candidates = [Candidate.parse(text, args.task, args.precision, size_of_stock) for text in texts]
    batch = batch_of(args)
    trainers: Dict[str, Trainer] = {}
    for candidate in candidates:
        trainers[candidate.name] = build_trainer(candidate, args, trainers.get(args.baseline))
    size = about(batch, trainers[args.baseline].task.source_dictionary.pad())
    losses: Dict[str, float] = {}

    def step_of(name: str) -> Callable[[], None]:
        return lambda: losses.update({name: loss_of_step(trainers[name], batch)})

    rates = peaks([candidate.precision for candidate in candidates], args.device)
    warm_up = 3 if args.device.type == "cuda" else 1  # fairseq empties the GPU's cache in the first step
    seconds = interleaved({name: step_of(name) for name in trainers}, args.repeats, args.device, warm_up)
    columns, counted = compared(seconds, args.baseline), f"{'source' if TASKS[args.task].is_text else 'target'} tokens"
    rows: List[Dict[str, Any]] = []
    for candidate in candidates:
        row = {"candidate": candidate.name, "precision": candidate.precision, **columns[candidate.name]}
        work = 3 * sum(size[f"{side} tokens"] * n for side, n in flops(trainers[candidate.name].model).items())
        row[f"{counted}/s"] = round(size[counted] / row["seconds"], 1)
        row["share of peak"] = f"{work / row['seconds'] / rates[candidate.precision] / 1e12:.1%}"
        row[f"loss of step {args.repeats + warm_up}"] = round(losses[candidate.name], 3)
        rows.append(row)
    for name in trainers if args.profile else ():
        profiled(name, step_of(name), args.device)
    if args.memory:
        trainers.clear()
        for candidate, row in zip(candidates, rows):
            row.update(peak_memory(first_step, args.device, candidate, args))
    usual = load_recipe(args.task).train
    return {
        "what": f"one training step (fairseq's Trainer), {args.vocabulary:,} types; times as fast as {args.baseline}",
        "batch": size,
        "criterion, optimizer": [usual["criterion"], usual["optimizer"]],
        "measured peak (TFLOP/s)": rates,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark train``."""
    number, candidate = whole_number(0), "ARCH[:CRITERION[:OPTIMIZER]][@PRECISION][+compile]"
    archs = (
        "candidates; `stock` is fairseq's own model of their size, criterion and optimizer, `+compile` is "
        "torch.compile (default: two of base size)"
    )
    precisions = "bf16: fairseq's --bf16; autocast: fp32 parameters and bf16 matrix products (default: fp32)"
    length = "tokens of each sentence (default: like WMT; of running text 512)"
    parser.add_argument("--task", choices=list(TASKS), default="translation", help="the kind of models")
    parser.add_argument("--archs", nargs="+", metavar=candidate, help=archs)
    parser.add_argument("--baseline", default="stock", help="candidate to compare with (default: stock)")
    parser.add_argument("--precision", choices=list(PRECISIONS), default="fp32", help=precisions)
    parser.add_argument("--tokens", type=number, default=2044, help="about how many target tokens (default: 2044)")
    parser.add_argument("--sentences", type=number, default=0, help="size of the batch, instead of --tokens")
    parser.add_argument("--length", type=number, default=0, help=length)
    parser.add_argument("--memory", action="store_true", help="also measure peak memory, in separate processes")
