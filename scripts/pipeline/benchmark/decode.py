"""Beam search over a batch, with outputs of equal length: fairseq's model and search, this plugin's, CTranslate2's."""

import argparse
import itertools
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import torch
from fairseq import options, utils
from fairseq.data import Dictionary

from fairseq_rope.architectures import REFERENCE
from fairseq_rope.export import export_model
from fairseq_rope.products import has_instructions

from ..command import whole_number
from ..training.fairseq_options import parse
from ..translation.engines import WORKER_TOKENS, search_options, tokens_at_once
from .measuring import PRECISIONS, compared, interleaved, peaks, profiled
from .models import (
    Batch,
    about,
    build_model,
    configure,
    dictionary,
    flops,
    make_batch,
    make_task,
    same_parameters,
    size_of,
)

BEAM, LENPEN = 4, 0.6
"""The search, as the recipes for translation have it."""

SEARCHES = {"stock search": "translation", "fast search": "fast_translation"}
"""Name of a search, to the task with its generator."""


class Candidate(NamedTuple):
    """A system that translates a batch."""

    name: str
    precision: str
    translate: Callable[[Batch], Any]


class Systems:
    """Builds models with the same parameters, and searches over them.

    Args:
        args: ``archs``, ``precisions``, ``length`` (of the outputs), ``vocabulary``, ``device``, ``flags``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.words: Dictionary = dictionary(args.vocabulary)
        self.stock_arch = f"{REFERENCE}_{size_of(args.archs)}"
        """fairseq's own transformer of their size, the model of the candidate ``stock``."""
        self.stock = self.build(self.stock_arch)
        length = str(args.length)
        words = ["DATA", "--path", "none", "--max-len-a", "0", "--max-len-b", length, "--min-len", length]
        words += ["--beam", str(BEAM), "--lenpen", str(LENPEN)]
        self.searches = {
            name: configure(options.parse_args_and_arch(options.get_generation_parser(), [*words, "--task", task]))
            for name, task in SEARCHES.items()
        }

    def build(self, arch: str) -> Any:
        """A model with random parameters: those of the stock model as far as it has them."""
        cfg = configure(parse(["--arch", arch, "--share-all-embeddings", *self.args.flags]))
        utils.set_torch_seed(1)
        model = build_model(make_task(cfg, self.words), cfg)
        if arch != self.stock_arch:
            same_parameters(model, self.stock)
        return model.eval()

    def candidates(self) -> Iterator[Candidate]:
        """The stock model with the stock search, and each architecture with each search, in each precision; and
        CTranslate2, if it is installed, with what it can compute, in float32 and int8."""
        archs = list(dict.fromkeys(self.args.archs))
        systems = [(self.stock_arch, "stock search"), *itertools.product(archs, SEARCHES)]
        for precision in dict.fromkeys(self.args.precisions):
            for arch, search in dict.fromkeys(systems):
                yield self.candidate(arch, search, precision)
        for arch in archs:
            yield from self.exported(arch)

    def candidate(self, arch: str, search: str, precision: str) -> Candidate:
        """A new model, prepared as ``fairseq-generate`` does it, with a search."""
        cfg = self.searches[search]
        task, model = make_task(cfg, self.words), self.build(arch)
        model.to(device=self.args.device, dtype=PRECISIONS[precision])
        model.prepare_for_inference_(cfg)
        generator = task.build_generator([model], cfg.generation)

        name = "stock" if arch == self.stock_arch and search == "stock search" else f"{arch}, {search}"
        name += "" if precision == "fp32" else f", {precision}"
        return Candidate(name, precision, partial(task.inference_step, generator, [model]))

    def exported(self, arch: str) -> Iterator[Candidate]:
        """CTranslate2's search with this model, as far as it can compute it."""
        for name, precision, quantization in (("", "fp32", "float32"), (", int8", "int8", "int8")):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    export_model(self.build(arch), Path(folder) / "model", quantization=quantization)
                    translate = self._ctranslate2(Path(folder) / "model")
                except (ImportError, ValueError, RuntimeError) as error:  # it has no such encoding, or no such device
                    print(f"left out: {arch}, CTranslate2{name}: {error}", file=sys.stderr)
                    continue
            yield Candidate(f"{arch}, CTranslate2{name}", precision, translate)

    def _ctranslate2(self, model: Path) -> Callable[[Batch], Any]:
        """CTranslate2's search with the model in a folder, with the workers that ``translate.sh`` gives it.

        It takes as many steps as fairseq's search, but nothing forces ``</s>`` in the last one.
        """
        import ctranslate2

        args, words, threads = self.args, self.words, torch.get_num_threads()
        workers, most = (threads, WORKER_TOKENS) if args.device.type == "cpu" else (1, sys.maxsize)
        translator = ctranslate2.Translator(str(model), device=args.device.type, inter_threads=workers, intra_threads=1)
        translator.translate_batch([["a"]], max_decoding_length=1)  # on a GPU, this loads its libraries
        torch.set_num_threads(threads)  # which CTranslate2 has set to those of a worker
        search = {**search_options(BEAM, LENPEN, args.length), "min_decoding_length": args.length}

        def translate(batch: Batch) -> Any:
            rows = batch["net_input"]["src_tokens"].tolist()
            sources = [[words[token] for token in row if token not in (words.pad(), words.eos())] for row in rows]
            size = tokens_at_once(sources, workers, most)
            return translator.translate_batch(sources, max_batch_size=size, batch_type="tokens", **search)

        return translate


def measure(
    systems: Systems, candidates: List[Candidate], sentences: int, rates: Dict[str, float]
) -> List[Dict[str, Any]]:
    """Rows of the table for one batch with this number of sentences."""
    args = systems.args
    batch = make_batch("translation", systems.words, sentences=sentences)
    size = about(batch, systems.words.pad())
    on_device = utils.move_to_cuda(batch) if args.device.type == "cuda" else batch
    work = flops(systems.stock)
    # each token of each beam goes through the decoder once
    total = work["source"] * size["source tokens"] + work["target"] * sentences * BEAM * (args.length + 1)

    calls = {candidate.name: partial(candidate.translate, on_device) for candidate in candidates}
    seconds = interleaved(calls, args.repeats, args.device)
    for name in calls if args.profile else ():
        if "CTranslate2" not in name:  # of which PyTorch's profiler sees nothing
            profiled(f"{name}, batch {sentences}", calls[name], args.device)
    rows: List[Dict[str, Any]] = []
    for candidate, columns in zip(candidates, compared(seconds, candidates[0].name).values()):
        row = {"sentences": sentences, "candidate": candidate.name, **columns}
        row["tokens/s"] = round(sentences * args.length / columns["seconds"], 1)
        rate = rates.get(candidate.precision)  # none is measured of int8
        row["share of peak"] = f"{total / columns['seconds'] / rate / 1e12:.1%}" if rate else "-"
        rows.append(row)
    return rows


def run(args: argparse.Namespace) -> Dict[str, Any]:
    """Measures beam search against stock fairseq's, for each size of the batch."""
    computes_bf16 = args.device.type == "cuda" or has_instructions(torch.bfloat16)
    args.precisions = args.precisions or (["fp32", "bf16"] if computes_bf16 else ["fp32"])
    systems = Systems(args)
    candidates = list(systems.candidates())
    rates = peaks(args.precisions, args.device)
    measured = [measure(systems, candidates, sentences, rates) for sentences in args.sentences]
    return {
        "what": f"beam search, {args.vocabulary:,} types, random parameters; times as fast as {candidates[0].name}",
        "beam": BEAM,
        "length penalty": LENPEN,
        "output length": args.length,
        "source length": "like WMT",
        "measured peak (TFLOP/s)": rates,
        "rows": [row for rows in measured for row in rows],
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark decode``."""
    archs, number = ["transformer_sinusoidal_base", "roformer_base"], whole_number(1)
    sentences, length = "sizes of the batch (default: 64 1)", "tokens of each output (default: 28)"
    parser.add_argument("--archs", nargs="+", default=archs, help=f"candidates (default: {' '.join(archs)})")
    precisions = "of fairseq's and this plugin's models (default: fp32, and bf16 unless the processor only emulates it)"
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), help=precisions)
    parser.add_argument("--sentences", nargs="+", type=number, default=[64, 1], help=sentences)
    parser.add_argument("--length", type=number, default=28, help=length)
