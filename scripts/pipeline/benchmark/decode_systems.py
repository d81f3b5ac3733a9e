"""The models and searches that the decoding benchmark compares."""

import argparse
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from fairseq import options, utils
from fairseq.data import Dictionary

from .batch import dictionary
from .machine import PRECISIONS
from .models import STOCK, build_model, configure, make_task, same_parameters

SEARCHES = {"stock search": "translation", "fast search": "fast_translation"}
"""Name of a search, to the task with its generator; left out if the task is not registered."""

STOCK_NAME = "stock"

OWN_CONVERTER = "stock, CTranslate2's converter"

Hypotheses = List[Tuple[List[int], float]]
"""For each sentence, the tokens of its best hypothesis without ``</s>``, and its score as fairseq computes it."""


class Candidate(NamedTuple):
    """A system that translates a batch."""

    name: str
    precision: str
    function: str
    """Candidates that compute the same, up to rounding, have the same name here: their hypotheses should be equal."""
    translate: Callable[[Dict[str, Any]], Hypotheses]


class Systems:
    """Builds models with the same parameters, and searches over them.

    Args:
        args: ``length`` (of the outputs), ``beam``, ``lenpen``, ``vocabulary``, ``device``, ``flags``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.words: Dictionary = dictionary(args.vocabulary)
        self.stock = self.build(STOCK)

    def configure(self, task: str) -> Any:
        """The configuration of ``fairseq-generate``."""
        args = self.args
        limits = ["--max-len-a", "0", "--max-len-b", str(args.length), "--min-len", str(args.length)]
        search = ["--path", "none", "--task", task, "--beam", str(args.beam), "--lenpen", str(args.lenpen), *limits]
        return configure(options.get_generation_parser(), search)

    def configure_model(self, arch: str) -> Any:
        """The configuration of ``fairseq-train``."""
        flags = ["--arch", arch, "--share-all-embeddings", *self.args.flags]
        return configure(options.get_training_parser(), flags)

    def build(self, arch: str) -> Any:
        """A model with random parameters: those of the stock model as far as it has them."""
        cfg = self.configure_model(arch)
        utils.set_torch_seed(1)
        model = build_model(make_task(cfg, self.words), cfg)
        if arch != STOCK:
            same_parameters(model, self.stock)
        return model.eval()

    def candidate(self, arch: str, search: str, precision: str) -> Candidate:
        """A new model, prepared as ``fairseq-generate`` does it, with a search."""
        cfg = self.configure(SEARCHES[search])
        task, model = make_task(cfg, self.words), self.build(arch)
        model.to(device=self.args.device, dtype=PRECISIONS[precision])
        model.prepare_for_inference_(cfg)
        generator = task.build_generator([model], cfg.generation)

        def translate(batch: Dict[str, Any]) -> Hypotheses:
            hypotheses_of = task.inference_step(generator, [model], batch)
            return [(best["tokens"][:-1].tolist(), float(best["score"])) for best, *_ in hypotheses_of]

        name = STOCK_NAME if arch == STOCK and search == "stock search" else f"{arch}, {search}"
        return Candidate(
            name if precision == "fp32" else f"{name}, {precision}", precision, function_of(arch), translate
        )


def function_of(arch: str) -> str:
    """The first architecture that computes the same as ``arch``, given the same parameters."""
    return STOCK if arch.startswith(("transformer_sinusoidal_", "fairseq_transformer_")) else arch
