"""``python -m fairseq_rope``: the folder for ``--user-dir``, the encodings, and the architectures with their sizes."""

import argparse
import fnmatch
import sys
import warnings
from pathlib import Path
from typing import List, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, build_model

from .architectures import ARCHITECTURES, REFERENCE, SIZES
from .options import add_encoding_args
from .positions import POSITIONS

VOCABULARY = 37000


def count_parameters(arch: str, vocabulary: int) -> int:
    """Trainable parameters of an architecture with one shared vocabulary and shared embeddings."""
    dictionary = Dictionary()
    dictionary.symbols += [""] * (vocabulary - len(dictionary))  # only its length is looked at
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    with torch.device("meta"):  # shapes without memory
        model = build_model(argparse.Namespace(arch=arch, share_all_embeddings=True), task)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def matching(names: Sequence[str]) -> List[str]:
    """The architectures of these names, each once; a pattern stands for those of this package that it matches.

    Raises:
        ValueError: a name or a pattern of none.
    """
    found: List[str] = []
    for name in names:
        known = [name] if name in ARCH_MODEL_REGISTRY else fnmatch.filter(ARCHITECTURES, name)
        if not known:
            raise ValueError(f"unknown architecture '{name}': `python -m fairseq_rope` lists them")
        found += [arch for arch in known if arch not in found]
    return found


def table(vocabulary: int) -> str:
    """What there is, as text."""
    rows: List[Tuple[str, str, int]] = [
        (a, f"{p} encoding", count_parameters(a, vocabulary)) for a, (p, _) in ARCHITECTURES.items()
    ]
    rows += [
        (f"{REFERENCE}_{size}", "fairseq's own model", count_parameters(f"{REFERENCE}_{size}", vocabulary))
        for size in SIZES
    ]
    return "\n".join(f"{arch:<36}{position:<22}{count:>14,}" for arch, position, count in rows)


def options() -> str:
    """The flags of each encoding, as text: fairseq-train's own --help ends before it knows the architecture."""
    parts = []
    for name, encoding in POSITIONS.items():
        parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS, argument_default=argparse.SUPPRESS)
        add_encoding_args(parser, name)
        summary = (encoding.__doc__ or "").split("\n")[0]
        flags = parser.format_help().split("\n", 1)[1:]  # without argparse's heading
        parts.append("\n".join([f"{name}: {summary}", *(text.rstrip() for text in flags if text.strip())]))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fairseq_rope", description=__doc__)
    parser.add_argument(
        "--vocabulary", type=int, default=VOCABULARY, help=f"types to count for (default: {VOCABULARY})"
    )
    parser.add_argument("--options", action="store_true", help="list the flags of each encoding, for fairseq-train")
    parser.add_argument(
        "--check-arch", metavar="ARCH", nargs="+", help="only print these architectures; '*_base' stands for all such"
    )
    parser.add_argument(
        "--devices",
        action="store_true",
        help="then also print how many GPUs there are, and if they have bf16 in hardware",
    )
    args = parser.parse_args()
    if args.devices and not args.check_arch:
        parser.error("--devices goes with --check-arch")
    if args.check_arch:
        try:
            print(" ".join(matching(args.check_arch)))
        except ValueError as error:
            sys.exit(f"error: {error}")
        if args.devices:
            gpus = torch.cuda.device_count()
            print(gpus, gpus > 0 and torch.cuda.get_device_capability()[0] >= 8)
        return
    if args.options:
        print(options())
        return
    print(f"--user-dir {Path(__file__).parent}\n")
    print("position encodings (--encoder-position, --decoder-position):", ", ".join(POSITIONS), "\n")
    print(f"{'architecture (--arch)':<36}{'position':<22}{'parameters':>14}")
    print(table(args.vocabulary))
    print(f"\nParameters with one shared vocabulary of {args.vocabulary:,} types and --share-all-embeddings.")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
