"""What the plugin offers, as text: the folder for ``--user-dir``, encodings with their flags, architectures.

``fairseq-rope info`` and ``fairseq-rope options`` print it.
"""

import argparse
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model

from . import products
from .architectures import ARCHITECTURES, REFERENCE
from .kinds import KINDS, SIZES
from .loading import dictionary_of
from .options import add_encoding_args
from .positions import POSITIONS

USER_DIR = Path(__file__).parent
"""The folder for ``--user-dir``."""

VOCABULARY = 37000
SMALLEST_VOCABULARY = len(Dictionary())  # fairseq's special symbols


def count_parameters(arch: str, vocabulary: int) -> int:
    """Trainable parameters of an architecture for translation with one shared vocabulary and shared embeddings."""
    dictionary = dictionary_of(vocabulary)
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    args = argparse.Namespace(arch=arch, share_all_embeddings=True)
    ARCH_CONFIG_REGISTRY[arch](args)
    layers = {"encoder": args.encoder_layers, "decoder": args.decoder_layers}
    args.encoder_layers = args.decoder_layers = 1  # the others of a side have as many parameters
    with torch.device("meta"):  # shapes without memory
        model = build_model(args, task)
    return sum(
        parameter.numel() * (layers[name.split(".")[0]] if ".layers.0." in name else 1)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    )


def overview(vocabulary: int = VOCABULARY) -> str:
    """The folder for ``--user-dir``, the encodings, and the architectures with their numbers of parameters."""
    translation, *others = KINDS.values()
    kinds = {arch: position for arch, (position, _, kind) in ARCHITECTURES.items() if kind is translation}
    kinds.update({f"{REFERENCE}_{size}": "fairseq's own model" for size in SIZES})
    rows = [("architecture (--arch)", "position", "parameters")]
    rows += [(arch, kind, f"{count_parameters(arch, vocabulary):,}") for arch, kind in kinds.items()]
    first, second, _ = (max(map(len, column)) + 2 for column in zip(*rows))
    return "\n".join(
        [
            f"--user-dir {USER_DIR}",
            f"products in fp32 on this processor: {products.explanation()}",
            "",
            f"position encodings (--encoder-position, --decoder-position): {', '.join(POSITIONS)}",
            "",
            *(f"{arch:<{first}}{kind:<{second}}{count:>12}" for arch, kind, count in rows),
            "",
            f"Parameters with one shared vocabulary of {vocabulary:,} types and --share-all-embeddings.",
            "",
            "language models, masked (mlm) and causal (lm), each with the first part of the names above:",
            *(f"..._{kind.infix}{size}" for kind in others for size in kind.sizes),
        ]
    )


def options() -> str:
    """The flags of each encoding: fairseq-train's own --help ends before it knows the architecture."""
    parts = []
    for name, encoding in POSITIONS.items():
        parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS, argument_default=argparse.SUPPRESS)
        add_encoding_args(parser, name)
        summary = (encoding.__doc__ or "").split("\n")[0]
        flags = parser.format_help().split("\n", 1)[1:]  # without argparse's heading
        parts.append("\n".join([f"{name}: {summary}", *(text.rstrip() for text in flags if text.strip())]))
    return "\n\n".join(parts)
