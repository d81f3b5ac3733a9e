"""One training step with fairseq's own ``Trainer``: forward, loss, backward, gradient norm, optimizer."""

import argparse
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch
from fairseq import options, utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.trainer import Trainer

from ..command import Failure
from .batch import about, dictionary
from .kinds import KINDS, Kind
from .machine import PRECISIONS, peaks
from .memory import peak_memory
from .models import build_model, check_arch, configure, flops, make_task, same_parameters
from .output import Result
from .profile import shares
from .timing import compared, interleaved

OPTIMIZER = "fused_adam"
COMPILED = "+compile"
CLASSIFICATION = "sentence_prediction"
"""fairseq's task, and its criterion."""


class Candidate(NamedTuple):
    """A candidate: ``ARCH[:CRITERION[:OPTIMIZER]][@PRECISION][+compile]`` on the command line.

    In place of all up to ``@``, ``stock`` is fairseq's own.
    """

    name: str
    kind: Kind
    arch: str
    criterion: str
    optimizer: str
    precision: str
    compiled: bool
    """Whether the model goes through ``torch.compile``."""

    @classmethod
    def parse(
        cls, text: str, kind: Kind, precision: str = "fp32", criterion: str = "", optimizer: str = OPTIMIZER
    ) -> "Candidate":
        """The candidate that ``text`` describes, with these defaults; the criterion's is that of the kind.

        Raises:
            Failure: a part of ``text`` is not registered.
        """
        system, _, own_precision = text.removesuffix(COMPILED).partition("@")
        if system == "stock":
            system = kind.stock
        parts = [*system.split(":"), "", ""]
        criterion, optimizer = parts[1] or criterion or kind.criterion, parts[2] or optimizer
        self = cls(text, kind, parts[0], criterion, optimizer, own_precision or precision, text.endswith(COMPILED))
        check_arch(self.arch)
        if kind.task == CLASSIFICATION and not hasattr(ARCH_MODEL_REGISTRY[self.arch], "register_classification_head"):
            raise Failure(f"{self.arch} in '{text}' has no head of classification: name a masked language model")
        if (self.criterion == CLASSIFICATION) != (kind.task == CLASSIFICATION):
            raise Failure(f"the criterion '{self.criterion}' in '{text}' does not fit --task {kind.task}")
        known: Sequence[Any] = (CRITERION_REGISTRY, OPTIMIZER_REGISTRY, PRECISIONS)
        for what, registry in zip(("criterion", "optimizer", "precision"), known):
            if getattr(self, what) not in registry:
                raise Failure(f"unknown {what} '{getattr(self, what)}' in '{text}'")
        return self


def build_trainer(
    candidate: Candidate, vocabulary: int, flags: Sequence[str], device: torch.device, start: Optional[Trainer] = None
) -> Trainer:
    """The trainer that ``fairseq-train`` would build, with the parameters of ``start`` as far as they fit."""
    own = ["--arch", candidate.arch, "--criterion", candidate.criterion, "--optimizer", candidate.optimizer]
    own += ["--distributed-world-size", "1", *(["--cpu"] if device.type == "cpu" else [])]
    given = ["--task", candidate.kind.task, *candidate.kind.flags, *own, *flags]
    cfg = configure(options.get_training_parser(), given, candidate.precision == "bf16")
    utils.set_torch_seed(cfg.common.seed)
    task = make_task(cfg, dictionary(vocabulary))
    model, criterion = build_model(task, cfg), task.build_criterion(cfg.criterion)
    if start is not None:
        same_parameters(model, start.model)
    if candidate.precision == "autocast":
        # inside fairseq's own context, which would switch it off on a GPU
        criterion.forward = torch.autocast(device.type, dtype=torch.bfloat16)(criterion.forward)
    if candidate.compiled:
        model.compile()
    trainer = Trainer(cfg, task, model, criterion)
    trainer.save_checkpoint = lambda *_: None  # which it does when a step fails
    return trainer


def batch_of(args: argparse.Namespace) -> Dict[str, Any]:
    """The batch that the command line describes."""
    return KINDS[args.task].batch(dictionary(args.vocabulary), args.tokens, args.sentences, args.length)


def first_step(candidate: Candidate, args: argparse.Namespace) -> Callable[[], Any]:
    """Builds a candidate, in a separate process; the result makes one step."""
    trainer, batch = build_trainer(candidate, args.vocabulary, args.flags, args.device), batch_of(args)
    return lambda: loss_of_step(trainer, batch)


def loss_of_step(trainer: Trainer, batch: Dict[str, Any]) -> float:
    """Makes a training step.

    Raises:
        Failure: the memory of the GPU is full, which fairseq only logs.
    """
    done = trainer.train_step([batch])
    if done is None:
        raise Failure("out of memory: give fewer --tokens or --archs")
    return float(done["loss"])


def _check_length(trainers: Dict[str, Trainer], batch: Dict[str, Any]) -> None:
    length = batch["net_input"]["src_tokens"].size(1)
    for name, trainer in trainers.items():
        limits = trainer.model.max_positions()
        if length > (limits if isinstance(limits, int) else min(limits)):
            raise Failure(f"{name} takes at most {limits} tokens, not {length}: give a smaller --length")


def run(args: argparse.Namespace) -> Result:
    """Measures training steps against the baseline's; also returns each candidate's loss in the last step."""
    kind = KINDS[args.task]
    texts = list(dict.fromkeys([args.baseline, *(args.archs or kind.archs)]))
    criterion = args.criterion or kind.criterion
    candidates = [Candidate.parse(text, kind, args.precision, criterion, args.optimizer) for text in texts]
    batch = batch_of(args)
    trainers: Dict[str, Trainer] = {}
    for candidate in candidates:
        start = trainers.get(args.baseline)
        trainers[candidate.name] = build_trainer(candidate, args.vocabulary, args.flags, args.device, start)
    _check_length(trainers, batch)
    size = about(batch, trainers[args.baseline].task.source_dictionary.pad())
    losses: Dict[str, float] = {}

    def step_of(name: str) -> Callable[[], None]:
        def step() -> None:
            losses[name] = loss_of_step(trainers[name], batch)

        return step

    rates = peaks([candidate.precision for candidate in candidates], args.device)
    warm_up = 3 if args.device.type == "cuda" else 1  # fairseq empties the GPU's cache in the first step
    seconds = interleaved({name: step_of(name) for name in trainers}, args.repeats, args.device, warm_up)
    columns = compared(seconds, args.baseline)
    rows: List[Dict[str, Any]] = []
    for candidate in candidates:
        row = {"candidate": candidate.name, "precision": candidate.precision, **columns[candidate.name]}
        work = 3 * sum(size[f"{side} tokens"] * n for side, n in flops(trainers[candidate.name].model).items())
        row[f"{kind.counted}/s"] = round(size[kind.counted] / row["seconds"], 1)
        row["share of peak"] = f"{work / row['seconds'] / rates[candidate.precision] / 1e12:.1%}"
        row[f"loss of step {args.repeats + warm_up}"] = round(losses[candidate.name], 3)
        rows.append(row)
    profiles = {name: shares(step_of(name), args.device) for name in trainers} if args.profile else {}
    if args.memory:
        trainers.clear()
        for candidate, row in zip(candidates, rows):
            row.update(peak_memory(first_step, args.device, candidate, args))
    return {
        "what": f"one training step (fairseq's Trainer), {args.vocabulary:,} types; times as fast as {args.baseline}",
        "batch": size,
        "criterion, optimizer": [criterion, args.optimizer],
        "flags": args.flags,
        "repeats": args.repeats,
        "measured peak (TFLOP/s)": rates,
        **({"profile": profiles} if profiles else {}),
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark train``."""
    parser.add_argument("--task", choices=list(KINDS), default="translation", help="the kind of models")
    parser.add_argument(
        "--archs",
        nargs="+",
        metavar="ARCH[:CRITERION[:OPTIMIZER]][@PRECISION][+compile]",
        help="candidates; `stock` is fairseq's own model, criterion and optimizer, `+compile` is torch.compile "
        "(default: two of base size, of translation transformer_sinusoidal_base roformer_base)",
    )
    parser.add_argument("--baseline", default="stock", help="candidate to compare with (default: stock)")
    parser.add_argument("--criterion", help="criterion of candidates that name none (default: this plugin's)")
    parser.add_argument(
        "--optimizer", default=OPTIMIZER, help=f"optimizer of candidates that name none (default: {OPTIMIZER})"
    )
    parser.add_argument(
        "--precision",
        choices=list(PRECISIONS),
        default="fp32",
        help="bf16: fairseq's --bf16; autocast: fp32 parameters and bf16 matrix products (default: fp32)",
    )
    parser.add_argument("--tokens", type=int, default=2044, help="about how many target tokens (default: 2044)")
    parser.add_argument("--sentences", type=int, default=0, help="size of the batch, instead of --tokens")
    parser.add_argument(
        "--length", type=int, default=0, help="tokens of each sentence (default: like WMT; of running text 512)"
    )
    parser.add_argument("--vocabulary", type=int, default=37000, help="size of the vocabulary (default: 37000)")
    parser.add_argument("--memory", action="store_true", help="also measure peak memory, in separate processes")
    parser.add_argument("--profile", action="store_true", help="also say which operators take the time of a step")
