"""Beam search over a batch, outputs of equal length: fairseq's model and search, and this plugin's."""

import argparse
import importlib.util
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from fairseq import options, utils
from fairseq.data import Dictionary
from fairseq.tasks import TASK_REGISTRY

from . import BenchmarkError
from .batch import about, dictionary, make_batch
from .machine import PRECISIONS, peaks
from .models import STOCK, build_model, check_arch, configure, flops, make_task, same_parameters
from .output import Result
from .timing import compared, interleaved

SEARCHES = {"stock search": "translation", "fast search": "fast_translation"}
"""Name of a search to the task whose generator it is; left out while it is not registered."""

STOCK_NAME = "stock"

Hypotheses = List[Tuple[List[int], float]]
"""For each sentence, the tokens of its best hypothesis without ``</s>``, and its score as fairseq counts it."""


class Candidate(NamedTuple):
    """Something that translates a batch."""

    name: str
    precision: str
    function: str
    """What computes the same, up to rounding, has the same name here: the hypotheses should be equal."""
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

    def build(self, arch: str) -> Any:
        """A model with random parameters, the stock model's as far as it has them."""
        flags = ["--arch", arch, "--share-all-embeddings", *self.args.flags]
        cfg = configure(options.get_training_parser(), flags)
        utils.set_torch_seed(1)
        model = build_model(make_task(cfg, self.words), cfg)
        if arch != STOCK:
            same_parameters(model, self.stock)
        return model.eval()

    def candidate(self, arch: str, search: str, precision: str) -> Candidate:
        """A model of its own, prepared as ``fairseq-generate`` does, with a search."""
        cfg = self.configure(SEARCHES[search])
        task, model = make_task(cfg, self.words), self.build(arch)
        model.to(device=self.args.device, dtype=PRECISIONS[precision])
        model.prepare_for_inference_(cfg)
        generator = task.build_generator([model], cfg.generation)

        def translate(batch: Dict[str, Any]) -> Hypotheses:
            found = task.inference_step(generator, [model], batch)
            return [(best["tokens"][:-1].tolist(), float(best["score"])) for best, *_ in found]

        same = arch == STOCK or arch.startswith(("transformer_sinusoidal_", "fairseq_transformer_"))
        name = STOCK_NAME if arch == STOCK and search == "stock search" else f"{arch}, {search}"
        return Candidate(
            name if precision == "fp32" else f"{name}, {precision}", precision, STOCK if same else arch, translate
        )


def ctranslate2_candidates(systems: Systems, archs: Sequence[str]) -> List[Candidate]:
    """CTranslate2 in float32 and int8, for the architectures that it can express; none where it is not installed."""
    if importlib.util.find_spec("ctranslate2") is None:
        return []
    return []  # the export is not written yet


def all_candidates(systems: Systems, archs: Sequence[str], precisions: Sequence[str]) -> List[Candidate]:
    """The stock model with the stock search, and each architecture with each search, in each precision."""
    searches = [search for search, task in SEARCHES.items() if task in TASK_REGISTRY]
    pairs = [(STOCK, "stock search"), *((arch, search) for arch in archs for search in searches)]
    candidates = [systems.candidate(*pair, precision) for precision in precisions for pair in pairs]
    return candidates + ctranslate2_candidates(systems, archs)


def agreement(hypotheses: Hypotheses, others: Hypotheses, name: str) -> Dict[str, Any]:
    """How many hypotheses are the same as those of ``name``, and by how much the scores of those differ at most."""
    if not name:
        return {"same hypotheses": "-", "scores differ by": "-"}
    same = [(own[1], other[1]) for own, other in zip(hypotheses, others) if own[0] == other[0]]
    difference = f"{max(abs(a - b) for a, b in same):.1g}" if same else "-"
    return {"same hypotheses": f"{len(same)} of {len(hypotheses)} as {name}", "scores differ by": difference}


def measure(
    systems: Systems, candidates: List[Candidate], sentences: int, rates: Dict[str, float]
) -> List[Dict[str, Any]]:
    """Rows of the table for one batch of so many sentences."""
    args, found = systems.args, {}
    batch = make_batch(systems.words, sentences=sentences, length=args.source_length)
    size = about(batch, systems.words.pad())
    on_device = utils.move_to_cuda(batch) if args.device.type == "cuda" else batch
    work = flops(systems.stock)
    # each token of each beam goes through the decoder, once
    total = work["source"] * size["source tokens"] + work["target"] * sentences * args.beam * (args.length + 1)

    def run_of(candidate: Candidate) -> Callable[[], None]:
        def translate() -> None:
            found[candidate.name] = candidate.translate(on_device)

        return translate

    seconds = interleaved({c.name: run_of(c) for c in candidates}, args.repeats, args.device)
    rows: List[Dict[str, Any]] = []
    reference: Dict[str, str] = {}
    for candidate, columns in zip(candidates, compared(seconds, candidates[0].name).values()):
        hypotheses, of = found[candidate.name], reference.setdefault(candidate.function, candidate.name)
        row = {"sentences": sentences, "candidate": candidate.name, **columns}
        row["tokens/s"] = round(sum(len(tokens) for tokens, _ in hypotheses) / columns["seconds"], 1)
        row["share of peak"] = f"{total / columns['seconds'] / rates[candidate.precision] / 1e12:.1%}"
        rows.append({**row, **agreement(hypotheses, found[of], "" if of == candidate.name else of)})
    return rows


def run(args: argparse.Namespace) -> Result:
    """Times of beam search against stock fairseq's, for each size of the batch."""
    for arch in args.archs:
        check_arch(arch)
    if min(args.length, args.beam, *args.sentences) < 1:
        raise BenchmarkError("--length, --beam and --sentences must be at least 1")
    systems = Systems(args)
    if args.length >= systems.stock.max_decoder_positions():
        raise BenchmarkError(f"--length must be less than {systems.stock.max_decoder_positions()}, not {args.length}")
    candidates = all_candidates(systems, list(dict.fromkeys(args.archs)), args.precisions)
    rates = peaks(args.precisions, args.device)
    rows = [row for sentences in args.sentences for row in measure(systems, candidates, sentences, rates)]
    return {
        "what": f"beam search, {args.vocabulary:,} types, random parameters; times as fast as {candidates[0].name}",
        "beam": args.beam,
        "length penalty": args.lenpen,
        "output length": args.length,
        "source length": args.source_length or "like WMT",
        "flags": args.flags,
        "repeats": args.repeats,
        "measured peak (TFLOP/s)": rates,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark decode``."""
    archs = ["transformer_sinusoidal_base", "roformer_base"]
    parser.add_argument("--archs", nargs="+", default=archs, help=f"to compare with stock (default: {' '.join(archs)})")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[64, 1], help="of a batch (default: 64 1)")
    parser.add_argument("--length", type=int, default=28, help="of all outputs, in tokens (default: 28)")
    parser.add_argument("--source-length", type=int, default=0, help="(default: lengths like those of WMT)")
    parser.add_argument("--beam", type=int, default=4, help="(default: 4)")
    parser.add_argument("--lenpen", type=float, default=0.6, help="length penalty (default: 0.6)")
    parser.add_argument("--vocabulary", type=int, default=37000, help="types (default: 37000)")
