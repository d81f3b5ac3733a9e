"""Speed, as ratios: everything that is compared is run in turn, in one process, and divided round by round.

::

    python -m fairseq_rope.tools.benchmark train --archs roformer_base transformer_shaw_base
    python -m fairseq_rope.tools.benchmark length --lengths 64 256 1024
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from tqdm import tqdm

from ..architectures import ARCHITECTURES
from ..attention import PositionalMultiheadAttention
from ..positions import POSITIONS, Stack, Steps

VOCABULARY = 37000
BASELINE = "transformer_sinusoidal_base"


def interleaved(candidates: Dict[str, Callable[[], Any]], repeats: int) -> Dict[str, List[float]]:
    """Seconds of each call of each candidate, called in turn ``repeats`` times after one call to warm up."""
    seconds: Dict[str, List[float]] = {name: [] for name in candidates}
    for repeat in tqdm(range(repeats + 1), unit=" rounds", disable=None):
        for name, candidate in candidates.items():
            start = time.perf_counter()
            candidate()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def training_step(arch: str, sentences: int, length: int) -> Callable[[], None]:
    """One update of an architecture: forward, label-smoothed loss, backward, Adam; sentences of equal length."""
    dictionary = Dictionary()
    dictionary.symbols += [""] * (VOCABULARY - len(dictionary))  # only its length is looked at
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build_model(argparse.Namespace(arch=arch, share_all_embeddings=True), task).to(device).train()
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=1e-4, betas=(0.9, 0.98))
    source = torch.randint(4, VOCABULARY, (sentences, length), device=device)
    source[:, -1] = dictionary.eos()
    previous = source.roll(1, dims=1)

    def step() -> None:
        optimizer.zero_grad()
        logits, _ = model(source, None, previous)
        log_probabilities = model.get_normalized_probs((logits, None), log_probs=True)
        loss, _ = label_smoothed_nll_loss(log_probabilities.flatten(0, 1), source.flatten(), 0.1)
        loss.backward()
        optimizer.step()

    return step


def attention_pass(encoding: str, length: int, causal: bool) -> Callable[[], None]:
    """Forward and backward of one self-attention of base size over one sentence of ``length`` tokens."""
    torch.manual_seed(1)
    cls = POSITIONS[encoding]
    stack = Stack(embed_dim=512, num_heads=8, num_layers=1, max_positions=length, padding_idx=1, causal=causal)
    position = cls(stack, cls.Options())
    attention = (cls.attention or PositionalMultiheadAttention)(512, 8, encoding=position)
    x = torch.randn(length, 1, 512, requires_grad=True)
    steps = Steps(torch.arange(length)[None], torch.zeros(1, length, dtype=torch.bool))

    def run() -> None:
        with attention.at(position.prepare(steps, steps), causal):
            attention(x, need_weights=False)[0].sum().backward()

    return run


def train(archs: Sequence[str], sentences: int, length: int, repeats: int) -> Dict[str, Any]:
    """Median times of :func:`training_step`, and their ratios to the first architecture's of the same round."""
    seconds = interleaved({arch: training_step(arch, sentences, length) for arch in archs}, repeats)
    rows = []
    for arch, times in seconds.items():
        ratios = [a / b for a, b in zip(times, seconds[archs[0]])]
        low, middle, high = (round(x, 3) for x in statistics.quantiles(ratios, n=4, method="inclusive"))
        median = round(statistics.median(times), 3)
        rows.append({"arch": arch, "seconds": median, "ratio": middle, "quartiles": f"{low} to {high}"})
    return {"what": "training step", "sentences": sentences, "length": length, "repeats": repeats, "rows": rows}


def lengths(encodings: Sequence[str], sizes: Sequence[int], repeats: int) -> Dict[str, Any]:
    """Times of :func:`attention_pass` per token, in both directions and causal, by length."""
    rows = []
    for size in sizes:
        for causal in (False, True):
            seconds = interleaved({name: attention_pass(name, size, causal) for name in encodings}, repeats)
            row: Dict[str, Any] = {"length": size, "side": "decoder" if causal else "encoder"}
            for name, times in seconds.items():
                row[f"{name} us/token"] = round(statistics.median(times) / size * 1e6, 1)
            rows.append(row)
    return {"what": "self-attention, forward and backward", "repeats": repeats, "rows": rows}


def machine() -> Dict[str, Any]:
    """What the times belong to."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    return {"device": device, "threads": torch.get_num_threads(), "cores": os.cpu_count(), "torch": torch.__version__}


def as_table(rows: List[Dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train", help="training steps of architectures, against the first one")
    base = [arch for arch, (_, size) in ARCHITECTURES.items() if size == "base" and arch != BASELINE]
    command.add_argument("--archs", nargs="+", default=[BASELINE, *base], help="default: all of base size")
    command.add_argument("--sentences", type=int, default=36, help="per batch (default: 36)")
    command.add_argument("--length", type=int, default=28, help="tokens per sentence (default: 28)")
    command = commands.add_parser("length", help="self-attention by length of the sentence, per token")
    command.add_argument("--encodings", nargs="+", choices=sorted(POSITIONS), default=["rope", "linear"])
    command.add_argument("--lengths", nargs="+", type=int, default=[2**n for n in range(6, 14)])
    for command in commands.choices.values():
        command.add_argument("--repeats", type=int, default=5, help="measured rounds (default: 5)")
        command.add_argument("--out", type=Path, help="also write the result as JSON")
    args = parser.parse_args()
    if args.repeats < 2:
        sys.exit(f"error: --repeats must be at least 2, not {args.repeats}")
    if min([*getattr(args, "lengths", []), getattr(args, "sentences", 1), getattr(args, "length", 2)]) < 1:
        sys.exit("error: numbers of tokens and sentences must be at least 1")
    if args.out and not args.out.resolve().parent.is_dir():
        sys.exit(f"error: {args.out.parent}: no such folder for --out")
    if args.command == "train":
        for arch in args.archs:
            if arch not in ARCH_MODEL_REGISTRY:
                sys.exit(f"error: unknown architecture '{arch}': `python -m fairseq_rope` lists them")
        result = train(args.archs, args.sentences, args.length, args.repeats)
    else:
        result = lengths(args.encodings, args.lengths, args.repeats)
    result["machine"] = machine()
    print(as_table(result["rows"]))
    print(f"\n{result['what']}; {result['repeats']} rounds in turn, medians; {result['machine']}")
    if args.out:
        temporary = args.out.with_name(f"{args.out.name}.tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        temporary.replace(args.out)


if __name__ == "__main__":
    main()
