"""What several test modules share: a vocabulary, small models, padded batches."""

import argparse
import functools
import os
from importlib.metadata import distributions

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

import fairseq_rope  # noqa: F401  (registers the architectures)
from fairseq_rope.positions import POSITIONS, SideConfig, TokenPositions

BOS, PAD, EOS, FIRST = 0, 1, 2, 4
VOCABULARY = 40
ENCODINGS = sorted(POSITIONS)
SOFTMAX = [name for name in ENCODINGS if POSITIONS[name].attention == "softmax"]
"""Those whose attention forms weights."""

LANGUAGE = ["mlm", "lm"]
"""Kinds of language models, as in the names of architectures."""

KINDS = ["translation", *LANGUAGE]

DEVICES = ["cpu", *([pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else [])]
"""Of this machine, for ``pytest.mark.parametrize``."""

STOCK_EVALUATES = pytest.mark.skipif(
    not list(distributions(name="fairseq-fixed")),
    reason="with torch 2 and padding, the official fairseq's own model has no outputs, or NaN",
)

FP32 = dict(rtol=1e-4, atol=1e-5)
"""Two fp32 computations of one quantity in a different order, through a few layers."""


def task(types=VOCABULARY):
    dictionary = Dictionary()
    for i in range(types - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    options = argparse.Namespace(tokens_per_sample=64)
    dictionaries = dict(source_dictionary=dictionary, target_dictionary=dictionary)
    return argparse.Namespace(**dictionaries, args=options, max_positions=lambda: options.tokens_per_sample)


def build(arch, seed=0, types=VOCABULARY, **options):
    """A small model in eval mode; ``options`` as on the command line."""
    small = dict(
        encoder_embed_dim=32,
        decoder_embed_dim=32,
        encoder_ffn_embed_dim=48,
        decoder_ffn_embed_dim=48,
        max_source_positions=64,
        max_target_positions=64,
        max_positions=64,
        share_all_embeddings=True,
        share_decoder_input_output_embed="_lm_" in arch,
    )
    torch.manual_seed(seed)
    return build_model(argparse.Namespace(arch=arch, **{**small, **options}), task(types)).eval()


def build_with(encoding, kind="translation", **options):
    """A small model with one encoding on all sides; few tokens are enough to see what it does."""
    short = dict(fire_threshold=16) if encoding == "fire" else {}
    arch = "transformer_none_tiny" if kind == "translation" else f"transformer_none_{kind}_tiny"
    return build(arch, **{"encoder_position": encoding, "decoder_position": encoding, **short, **options})


def build_felt(encoding, kind="translation", **options):
    """As :func:`build_with`, with a position term that is large from the start."""
    model = build_with(encoding, kind, **options)
    if kind == "mlm":  # BERT's initial values are too small to be felt at this width
        for parameter in model.parameters():
            parameter.data *= 10 if parameter.dim() > 1 else 1
    for name, module in model.named_modules():
        if name.split(".")[-1] == "position":
            randomised(module)
    return model


def override(model, method):
    """Makes ``model``, or a part of it, one of a user's subclass that changes what ``method`` returns.

    It halves logits and probabilities, and reverses targets. As it is wrapped, it seems to be of fairseq's module.
    """
    part, _, name = method.rpartition(".")
    module = model.get_submodule(part)
    stock = getattr(type(module), name)

    @functools.wraps(stock)
    def changed(self, *args, **kwargs):
        result = stock(self, *args, **kwargs)
        if name == "get_targets":
            return result.flip(1)
        if kwargs.get("features_only"):
            return result
        return (result[0] / 2, *result[1:]) if isinstance(result, tuple) else result / 2

    module.__class__ = type("Changed", (type(module),), {name: changed})


def side_config(**changes):
    values = dict(embed_dim=32, num_heads=4, max_positions=64, padding_idx=PAD, causal=False)
    return SideConfig(**{**values, **changes})


def token_positions(positions, special=()):
    """Tokens at ``positions`` ``(T,)`` or ``(B, T)``, those whose position is in ``special`` being </s>."""
    positions = torch.as_tensor(positions)
    positions = positions if positions.dim() == 2 else positions[None]
    return TokenPositions(positions, torch.isin(positions, positions.new_tensor(special)))


def randomised(module, std=0.5):
    """``module`` with parameters large enough to be felt; the frozen ones keep their values."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=std)
    return module


def sentences(count, length, seed=1):
    """Random token sequences that end in </s>, ``(count, length)``."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(FIRST, VOCABULARY, (count, length), generator=generator)
    tokens[:, -1] = EOS
    return tokens


def pad(tokens, left=0, right=0):
    """``(B, T)`` with padding columns before and behind."""
    return torch.nn.functional.pad(tokens, (left, right), value=PAD)


def decoder_input(tokens):
    """Target tokens moved one step to the right, beginning with </s>."""
    return torch.cat([tokens[:, -1:], tokens[:, :-1]], dim=1)


def same(tensors, others):
    """Whether two state dicts have the same names and the same bits."""
    return tensors.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in tensors.items())


class Malicious:
    """Unpickling it runs a program, which leaves the file ``harmed`` in the current folder."""

    def __reduce__(self):
        return os.system, ("touch harmed",)
