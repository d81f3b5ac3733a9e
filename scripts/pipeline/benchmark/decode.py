"""Beam search over a batch, with outputs of equal length: fairseq's model and search, this plugin's, CTranslate2's."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
from fairseq import options, utils
from fairseq.data import Dictionary
from fairseq.tasks import TASK_REGISTRY

from fairseq_rope.export import export_model

from ..command import Failure, whole_number
from ..training.fairseq_options import parse
from ..translation.engines import WORKER_TOKENS, search_options, tokens_at_once
from .batch import about, dictionary, make_batch
from .machine import PRECISIONS, peaks
from .models import build_model, configure, flops, make_task, same_parameters
from .timing import compared, interleaved, shares

STOCK = "transformer_wmt_en_de"
"""fairseq's own transformer of base size, the model of the candidate ``stock``."""

BEAM, LENPEN = 4, 0.6
"""The search, as the recipes for translation have it."""

SEARCHES = {"stock search": "translation", "fast search": "fast_translation"}
"""Name of a search, to the task with its generator; left out if the task is not registered."""

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
        args: ``length`` (of the outputs), ``vocabulary``, ``device``, ``flags``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.words: Dictionary = dictionary(args.vocabulary)
        self.stock = self.build(STOCK)

    def build(self, arch: str) -> Any:
        """A model with random parameters: those of the stock model as far as it has them."""
        cfg = configure(parse(["--arch", arch, "--share-all-embeddings", *self.args.flags]))
        utils.set_torch_seed(1)
        model = build_model(make_task(cfg, self.words), cfg)
        if arch != STOCK:
            same_parameters(model, self.stock)
        return model.eval()

    def candidate(self, arch: str, search: str, precision: str) -> Candidate:
        """A new model, prepared as ``fairseq-generate`` does it, with a search."""
        length = str(self.args.length)
        limits = ["--max-len-a", "0", "--max-len-b", length, "--min-len", length]
        words = ["DATA", "--path", "none", "--task", SEARCHES[search], "--beam", str(BEAM), "--lenpen", str(LENPEN)]
        cfg = configure(options.parse_args_and_arch(options.get_generation_parser(), [*words, *limits]))
        task, model = make_task(cfg, self.words), self.build(arch)
        model.to(device=self.args.device, dtype=PRECISIONS[precision])
        model.prepare_for_inference_(cfg)
        generator = task.build_generator([model], cfg.generation)

        def translate(batch: Dict[str, Any]) -> Hypotheses:
            hypotheses_of = task.inference_step(generator, [model], batch)
            return [(best["tokens"][:-1].tolist(), float(best["score"])) for best, *_ in hypotheses_of]

        name = "stock" if arch == STOCK and search == "stock search" else f"{arch}, {search}"
        name += "" if precision == "fp32" else f", {precision}"
        return Candidate(name, precision, _function_of(arch), translate)

    def candidates(self, archs: Sequence[str], precisions: Sequence[str]) -> List[Candidate]:
        """The stock model with the stock search, and each architecture with each search, in each precision; and
        CTranslate2, if it is installed, with what it can compute, in float32 and int8."""
        searches = [search for search, task in SEARCHES.items() if task in TASK_REGISTRY]
        pairs = [(STOCK, "stock search"), *((arch, search) for arch in archs for search in searches)]
        candidates = [self.candidate(*pair, precision) for precision in precisions for pair in pairs]
        try:
            import ctranslate2  # noqa: F401
        except ImportError:
            return candidates
        for arch in archs:
            model = self.build(arch)
            for name, precision, quantization in (("", "fp32", "float32"), (", int8", "int8", "int8")):
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        export_model(model, Path(folder) / "model", quantization=quantization)
                        translate = _ctranslate2(self, Path(folder) / "model")
                    except (ValueError, RuntimeError) as error:  # it has no such encoding, or no such device
                        print(f"left out: {arch}, CTranslate2{name}: {error}", file=sys.stderr)
                        continue
                function = f"{_function_of(arch)}, CTranslate2"
                candidates.append(Candidate(f"{arch}, CTranslate2{name}", precision, function, translate))
        return candidates


def _function_of(arch: str) -> str:
    """The first architecture that computes the same as ``arch``, given the same parameters."""
    return STOCK if arch.startswith(("transformer_sinusoidal_", "fairseq_transformer_")) else arch


def _ctranslate2(systems: Systems, model: Path) -> Callable[[Dict[str, Any]], Hypotheses]:
    """CTranslate2's search with the model in the folder ``model``, with the workers that ``translate.sh`` gives it.

    It takes as many steps as fairseq's search, but nothing forces ``</s>`` in the last one. Its hypotheses are
    therefore compared with one another, not with fairseq's. The folder is not needed afterwards.

    Raises:
        ValueError, RuntimeError: it cannot compute on the device.
    """
    import ctranslate2

    args, words, threads = systems.args, systems.words, torch.get_num_threads()
    workers, most = (threads, WORKER_TOKENS) if args.device.type == "cpu" else (1, sys.maxsize)
    translator = ctranslate2.Translator(str(model), device=args.device.type, inter_threads=workers, intra_threads=1)
    translator.translate_batch([["a"]], max_decoding_length=1)  # on a GPU, this loads its libraries
    torch.set_num_threads(threads)  # which CTranslate2 has set to those of a worker
    search = {**search_options(BEAM, LENPEN, args.length), "min_decoding_length": args.length}

    def translate(batch: Dict[str, Any]) -> Hypotheses:
        rows = batch["net_input"]["src_tokens"].tolist()
        sources = [[words[token] for token in row if token not in (words.pad(), words.eos())] for row in rows]
        size = tokens_at_once(sources, workers, most)
        hypotheses_of = translator.translate_batch(
            sources, return_scores=True, max_batch_size=size, batch_type="tokens", **search
        )
        return [([words.index(word) for word in best.hypotheses[0][:-1]], best.scores[0]) for best in hypotheses_of]

    return translate


def agreement(hypotheses: Hypotheses, others: Hypotheses, name: str) -> Dict[str, Any]:
    """How many hypotheses are the same as those of ``name``, and the largest difference of their scores."""
    if not name:
        return {"same hypotheses": "-", "scores differ by": "-"}
    same = [(own[1], other[1]) for own, other in zip(hypotheses, others) if own[0] == other[0]]
    difference = f"{max(abs(a - b) for a, b in same):.1g}" if same else "-"
    return {"same hypotheses": f"{len(same)} of {len(hypotheses)} as {name}", "scores differ by": difference}


def measure(
    systems: Systems, candidates: List[Candidate], sentences: int, rates: Dict[str, float]
) -> Tuple[List[Dict[str, Any]], Dict[str, Dict[str, str]]]:
    """Rows of the table for one batch with this number of sentences; with ``--profile`` also each candidate's."""
    args, hypotheses_of = systems.args, {}
    batch = make_batch("translation", systems.words, sentences=sentences)
    size = about(batch, systems.words.pad())
    on_device = utils.move_to_cuda(batch) if args.device.type == "cuda" else batch
    work = flops(systems.stock)
    # each token of each beam goes through the decoder once
    total = work["source"] * size["source tokens"] + work["target"] * sentences * BEAM * (args.length + 1)

    def run_of(candidate: Candidate) -> Callable[[], None]:
        def translate() -> None:
            hypotheses_of[candidate.name] = candidate.translate(on_device)

        return translate

    seconds = interleaved({c.name: run_of(c) for c in candidates}, args.repeats, args.device)
    # PyTorch's profiler sees nothing of CTranslate2
    own = [c for c in candidates if args.profile and not c.function.endswith("CTranslate2")]
    profiles = {f"{c.name}, {sentences}": shares(run_of(c), args.device) for c in own}
    rows: List[Dict[str, Any]] = []
    reference: Dict[str, str] = {}
    for candidate, columns in zip(candidates, compared(seconds, candidates[0].name).values()):
        hypotheses, of = hypotheses_of[candidate.name], reference.setdefault(candidate.function, candidate.name)
        row = {"sentences": sentences, "candidate": candidate.name, **columns}
        row["tokens/s"] = round(sum(len(tokens) for tokens, _ in hypotheses) / columns["seconds"], 1)
        rate = rates.get(candidate.precision)  # none is measured of int8
        row["share of peak"] = f"{total / columns['seconds'] / rate / 1e12:.1%}" if rate else "-"
        rows.append({**row, **agreement(hypotheses, hypotheses_of[of], "" if of == candidate.name else of)})
    return rows, profiles


def run(args: argparse.Namespace) -> Dict[str, Any]:
    """Measures beam search against stock fairseq's, for each size of the batch."""
    systems = Systems(args)
    if args.length >= systems.stock.max_decoder_positions():
        raise Failure(f"--length must be less than {systems.stock.max_decoder_positions()}, not {args.length}")
    candidates = systems.candidates(list(dict.fromkeys(args.archs)), args.precisions)
    rates = peaks(args.precisions, args.device)
    measured = [measure(systems, candidates, sentences, rates) for sentences in args.sentences]
    profiles = {name: shown for _, profiles in measured for name, shown in profiles.items()}
    return {
        "what": f"beam search, {args.vocabulary:,} types, random parameters; times as fast as {candidates[0].name}",
        "beam": BEAM,
        "length penalty": LENPEN,
        "output length": args.length,
        "source length": "like WMT",
        "measured peak (TFLOP/s)": rates,
        **({"profile": profiles} if profiles else {}),
        "rows": [row for rows, _ in measured for row in rows],
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark decode``."""
    archs, number = ["transformer_sinusoidal_base", "roformer_base"], whole_number(1)
    parser.add_argument("--archs", nargs="+", default=archs, help=f"candidates (default: {' '.join(archs)})")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument(
        "--sentences", nargs="+", type=number, default=[64, 1], help="sizes of the batch (default: 64 1)"
    )
    parser.add_argument("--length", type=number, default=28, help="tokens of each output (default: 28)")
