"""Beam search over a batch, with outputs of equal length: fairseq's model and search, this plugin's, CTranslate2's."""

import argparse
import importlib.util
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from fairseq import utils
from fairseq.tasks import TASK_REGISTRY

from fairseq_rope.export import export_model

from ..command import Failure
from ..translation.engines import search_options
from .batch import about, make_batch
from .decode_systems import OWN_CONVERTER, SEARCHES, Candidate, Hypotheses, Systems, function_of
from .machine import peaks
from .models import STOCK, check_arch, flops
from .output import Result
from .profile import shares
from .timing import compared, interleaved


def convert_stock(systems: Systems, folder: Path) -> None:
    """Makes ``folder`` with the stock model, converted by CTranslate2's own converter from a checkpoint of fairseq.

    Raises:
        ValueError: the converter refuses the model.
    """
    from ctranslate2.converters import FairseqConverter

    sides = ("source", "target")
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / "checkpoint.pt"
        torch.save({"args": systems.configure_model(STOCK).model, "model": systems.stock.state_dict()}, checkpoint)
        for side in sides:
            systems.words.save(str(Path(temporary) / f"dict.{side}.txt"))
        # "unsafe" because the checkpoint has a namespace in it, as those of fairseq-train do; we have just written it
        FairseqConverter(str(checkpoint), temporary, *sides, unsafe_deserialization=True).convert(str(folder))


def ctranslate2_candidate(systems: Systems, name: str, precision: str, function: str, model: Path) -> Candidate:
    """CTranslate2's search with the model in the folder ``model``, on as many threads as PyTorch has.

    It takes as many steps as fairseq's search, but nothing forces ``</s>`` in the last one. Its hypotheses are
    therefore compared with one another, not with fairseq's. The folder is not needed afterwards.

    Raises:
        ValueError: it cannot compute on the device.
    """
    import ctranslate2

    args, words = systems.args, systems.words
    try:
        translator = ctranslate2.Translator(
            str(model), device=args.device.type, inter_threads=1, intra_threads=torch.get_num_threads()
        )
        translator.translate_batch([["a"]], max_decoding_length=1)  # on a GPU, this loads its libraries
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    search = {**search_options(args.beam, args.lenpen, args.length), "min_decoding_length": args.length}
    if name == OWN_CONVERTER:
        search["suppress_sequences"] = [["<blank>"]]  # its word for the padding

    def translate(batch: Dict[str, Any]) -> Hypotheses:
        rows = batch["net_input"]["src_tokens"].tolist()
        sources = [[words[token] for token in row if token not in (words.pad(), words.eos())] for row in rows]
        hypotheses_of = translator.translate_batch(sources, return_scores=True, **search)
        return [([words.index(word) for word in best.hypotheses[0][:-1]], best.scores[0]) for best in hypotheses_of]

    return Candidate(name, precision, f"{function}, CTranslate2", translate)


def ctranslate2_candidates(systems: Systems, archs: Sequence[str]) -> List[Candidate]:
    """CTranslate2 with the stock model in float32, and with each architecture that it can compute in float32 and int8.

    There are none if it is not installed, or was built for another device.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        return []
    import ctranslate2

    if systems.args.device.type == "cuda" and not ctranslate2.get_cuda_device_count():
        return []
    makers: Dict[Tuple[str, str, str], Callable[[Path], None]] = {}
    makers[OWN_CONVERTER, "fp32", STOCK] = partial(convert_stock, systems)
    for arch in archs:
        model, name = systems.build(arch), f"{arch}, CTranslate2"
        for of_precision, precision, quantization in ((name, "fp32", "float32"), (f"{name}, int8", "int8", "int8")):
            makers[of_precision, precision, function_of(arch)] = partial(export_model, model, quantization=quantization)
    candidates = []
    for (name, precision, function), make in makers.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                make(Path(folder) / "model")
                candidates.append(ctranslate2_candidate(systems, name, precision, function, Path(folder) / "model"))
            except ValueError as error:
                print(f"left out: {name}: {error}", file=sys.stderr)
    return candidates


def all_candidates(systems: Systems, archs: Sequence[str], precisions: Sequence[str]) -> List[Candidate]:
    """The stock model with the stock search, and each architecture with each search, in each precision."""
    searches = [search for search, task in SEARCHES.items() if task in TASK_REGISTRY]
    pairs = [(STOCK, "stock search"), *((arch, search) for arch in archs for search in searches)]
    candidates = [systems.candidate(*pair, precision) for precision in precisions for pair in pairs]
    return candidates + ctranslate2_candidates(systems, archs)


def agreement(hypotheses: Hypotheses, others: Hypotheses, name: str) -> Dict[str, Any]:
    """How many hypotheses are the same as those of ``name``, and the largest difference of their scores."""
    if not name:
        return {"same hypotheses": "-", "scores differ by": "-"}
    same = [(own[1], other[1]) for own, other in zip(hypotheses, others) if own[0] == other[0]]
    difference = f"{max(abs(a - b) for a, b in same):.1g}" if same else "-"
    return {"same hypotheses": f"{len(same)} of {len(hypotheses)} as {name}", "scores differ by": difference}


def measure(
    systems: Systems,
    candidates: List[Candidate],
    sentences: int,
    rates: Dict[str, float],
) -> Tuple[List[Dict[str, Any]], Dict[str, Dict[str, str]]]:
    """Rows of the table for one batch with this number of sentences; with ``--profile`` also each candidate's."""
    args, hypotheses_of = systems.args, {}
    batch = make_batch(systems.words, sentences=sentences, length=args.source_length)
    size = about(batch, systems.words.pad())
    on_device = utils.move_to_cuda(batch) if args.device.type == "cuda" else batch
    work = flops(systems.stock)
    # each token of each beam goes through the decoder once
    total = work["source"] * size["source tokens"] + work["target"] * sentences * args.beam * (args.length + 1)

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


def run(args: argparse.Namespace) -> Result:
    """Measures beam search against stock fairseq's, for each size of the batch."""
    for arch in args.archs:
        check_arch(arch)
    if min(args.length, args.beam, *args.sentences) < 1:
        raise Failure("--length, --beam and --sentences must be at least 1")
    systems = Systems(args)
    if args.length >= systems.stock.max_decoder_positions():
        raise Failure(f"--length must be less than {systems.stock.max_decoder_positions()}, not {args.length}")
    candidates = all_candidates(systems, list(dict.fromkeys(args.archs)), args.precisions)
    rates = peaks(args.precisions, args.device)
    measured = [measure(systems, candidates, sentences, rates) for sentences in args.sentences]
    profiles = {name: shown for _, profiles in measured for name, shown in profiles.items()}
    return {
        "what": f"beam search, {args.vocabulary:,} types, random parameters; times as fast as {candidates[0].name}",
        "beam": args.beam,
        "length penalty": args.lenpen,
        "output length": args.length,
        "source length": args.source_length or "like WMT",
        "flags": args.flags,
        "repeats": args.repeats,
        "measured peak (TFLOP/s)": rates,
        **({"profile": profiles} if profiles else {}),
        "rows": [row for rows, _ in measured for row in rows],
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark decode``."""
    archs = ["transformer_sinusoidal_base", "roformer_base"]
    parser.add_argument("--archs", nargs="+", default=archs, help=f"candidates (default: {' '.join(archs)})")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[64, 1], help="sizes of the batch (default: 64 1)")
    parser.add_argument("--length", type=int, default=28, help="tokens of each output (default: 28)")
    parser.add_argument("--source-length", type=int, default=0, help="tokens of each source (default: like WMT)")
    parser.add_argument("--beam", type=int, default=4, help="size of the beam (default: 4)")
    parser.add_argument("--lenpen", type=float, default=0.6, help="length penalty (default: 0.6)")
    parser.add_argument("--vocabulary", type=int, default=37000, help="size of the vocabulary (default: 37000)")
    parser.add_argument("--profile", action="store_true", help="also say which operators take the time of a search")
