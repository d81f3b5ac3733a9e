"""Reads a Hugging Face folder of a masked RoFormer or BERT into a model folder of this plugin, and writes it back.

The logits are equal to rounding. Token type 0 becomes a vector of its own (``--token-type-embedding``). The other
types, the pooler and the head for pairs of sentences have no place in the model: the checkpoint keeps them for the
way back.
"""

import argparse
import shutil
from pathlib import Path
from typing import Dict, List, Tuple

from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.roberta.model import base_architecture
from torch import Tensor

from ...masked_lm import EPS, RoFormerMaskedModel
from ...options import position_options
from ...wordpieces import SETTINGS, SPECIAL, VOCABULARY, read_settings, read_vocabulary
from ..configuration import check_gap, model_configuration
from ..files import CheckpointError, load_checkpoint, making_folder
from ..model_folder import DICTIONARY, check_files, read_dictionary
from . import names
from .folders import (
    CONFIG,
    MEMORY,
    Entries,
    Values,
    entries_of,
    place_of,
    save_run,
    training,
    write_config,
    write_object,
)
from .names import FAMILIES, Family
from .weights import Taken, read_weights, write_weights

NUMBERS: Entries = {
    "encoder_layers": ("num_hidden_layers", 12),
    "encoder_embed_dim": ("hidden_size", 768),
    "encoder_ffn_embed_dim": ("intermediate_size", 3072),
    "encoder_attention_heads": ("num_attention_heads", 12),
}
FRACTIONS: Entries = {
    "layer_norm_eps": ("layer_norm_eps", 1e-12),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
}

ACTIVATIONS = {
    **{"gelu": "gelu", "relu": "relu", "tanh": "tanh", "gelu_new": "gelu_accurate"},
    **dict.fromkeys(("gelu_fast", "gelu_pytorch_tanh"), "gelu_accurate"),  # the same function, computed in other ways
}
"""``hidden_act`` in config.json, to fairseq's name."""

WRITTEN = {"gelu": "gelu", "relu": "relu", "tanh": "tanh", "gelu_accurate": "gelu_new", "gelu_fast": "gelu_new"}
"""fairseq's name of an activation, to ``hidden_act``."""


def import_folder(folder: Path, out: Path) -> str:
    """Makes the model folder ``out``: ``checkpoint.pt``, ``dict.txt``, ``vocab.txt``, ``tokenizer_config.json``.

    Returns:
        What it became and what has no place there.

    Raises:
        ValueError: a file is missing or damaged, files do not fit together, the model does what ours do not, or ``out``
            exists.
        OSError: ``out`` cannot be written.
    """
    values = Values(folder)
    family = FAMILIES.get(str(values.given.get("model_type")))
    if family is None:
        raise values.error("model_type", f"must be one of {', '.join(FAMILIES)}, marian and m2m_100")
    flags = _flags(values, family)
    pieces = read_vocabulary(folder / VOCABULARY)
    settings = read_settings(folder, values.given.get("tokenizer_class") or family.tokenizer)
    if len(pieces) != values.whole("vocab_size", 0):
        raise values.error("vocab_size", f"must be {len(pieces)}, as in {VOCABULARY}: take both from one model")
    words, order = _dictionary(pieces)
    remedy = f"give the folder of a {family.model_class} with the {CONFIG} of its weights"
    taken = Taken(read_weights(folder), str(folder), remedy)
    cfg = training("--task", "masked_lm", "--criterion", "fused_masked_lm", *flags)
    model, unused = names.to_plugin(taken, cfg.model, family, order, values.whole("type_vocab_size", 2))
    with making_folder(out) as made:
        save_run(made, {DICTIONARY: words}, cfg, model, {"config": values.given, "unused": unused})
        (made / VOCABULARY).write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
        write_object(made / SETTINGS, settings)
    return f"{folder} as {family.arch}{_lost(family, unused)}"


def _flags(values: Values, family: Family) -> List[str]:
    """The words of a command line of ``fairseq-train`` that describe the model."""
    alone = {"rotary_value": False} if family.position == "rope" else {"position_embedding_type": "absolute"}
    for name, expected in {**alone, "is_decoder": False, "add_cross_attention": False}.items():
        if values.given.get(name, expected) != expected:
            raise values.error(name, f"must be {str(expected).lower()}: the masked models here do nothing else")
    channels = values.whole(*NUMBERS["encoder_embed_dim"])
    if values.given.get("embedding_size", channels) != channels:
        raise values.error("embedding_size", "must be hidden_size: a projection behind it has no place here")
    longest = values.whole("max_position_embeddings", family.max_positions)
    words = [f"--activation-fn={values.chosen('hidden_act', 'gelu', ACTIVATIONS)}", f"--max-positions={longest}"]
    words += [f"--tokens-per-sample={longest}", "--token-type-embedding", *values.flags(NUMBERS, FRACTIONS)]
    words += [] if values.switch("tie_word_embeddings", True) else ["--untie-weights-roberta"]
    return [f"--arch={family.arch}", *words]


def _lost(family: Family, unused: Dict[str, Tensor]) -> str:
    parts = ["the pooler"] if any("pooler" in name for name in unused) else []
    parts += ["the head for pairs of sentences"] if any("seq_relationship" in name for name in unused) else []
    types = len(unused[f"{family.model_type}.{names.TYPES}"])
    parts += [f"token types above 0 ({types - 1})"] if types > 1 else []
    return f"; not in the model, and kept for the way back: {', '.join(parts)}" if parts else ""


def _dictionary(pieces: List[str]) -> Tuple[Dictionary, List[int]]:
    """fairseq's dictionary of ``pieces``, and for each of its rows the number of the piece."""
    dictionary = Dictionary()
    first = {word: piece for piece, word in SPECIAL.items()}
    numbers = {piece: number for number, piece in enumerate(pieces)}
    order = [numbers[first[symbol]] for symbol in dictionary.symbols]
    for number, piece in enumerate(pieces):
        word = SPECIAL.get(piece, piece)
        if word not in dictionary.indices:
            dictionary.add_symbol(word)
            order.append(number)
    return dictionary, order


def export_folder(run: Path, out: Path) -> str:
    """Makes the Hugging Face folder ``out``: ``config.json``, ``model.safetensors``, and the vocabulary's files.

    Args:
        run: a model folder of a masked language model with ``vocab.txt``, or one of its checkpoints.

    Returns:
        What it became and what has no place there.

    Raises:
        ValueError: a file is missing or damaged, neither RoFormer nor BERT of the library does what the model does, or
            ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    checkpoint, folder = place_of(run)
    state = load_checkpoint(checkpoint)
    cfg = _filled(model_configuration(state), state["model"])
    family = _family(cfg)
    check_files(folder, VOCABULARY, remedy="only models of BERT's word pieces have a place there")
    pieces, settings = read_vocabulary(folder / VOCABULARY), read_settings(folder)
    words = read_dictionary(folder / DICTIONARY, f"take {DICTIONARY} of the run's data").symbols
    if sorted(words) != sorted(SPECIAL.get(piece, piece) for piece in pieces):
        raise CheckpointError(f"{folder / VOCABULARY} and {DICTIONARY} have different words: take both from one model")
    numbers = {SPECIAL.get(piece, piece): number for number, piece in enumerate(pieces)}
    memory = state.get(MEMORY)
    if memory is None or memory["config"]["model_type"] != family.model_type:  # of another model, before a conversion
        memory = {"config": {}, "unused": {}}
    heads = [name for name in state["model"] if name.startswith("classification_heads.")]
    model = {name: value for name, value in state["model"].items() if name not in heads}
    tensors = names.to_hugging_face(model, cfg, family, [numbers[word] for word in words], memory["unused"])
    config = {
        **memory["config"],
        **({"embedding_size": cfg.encoder_embed_dim, "rotary_value": False} if family.position == "rope" else {}),
        **entries_of(cfg, NUMBERS, FRACTIONS),
        "architectures": [family.model_class],
        "model_type": family.model_type,
        "hidden_act": WRITTEN[cfg.activation_fn],
        "tie_word_embeddings": not cfg.untie_weights_roberta,
        "pad_token_id": numbers["<pad>"],
        "vocab_size": len(words),
        "max_position_embeddings": cfg.max_positions,
        "type_vocab_size": len(tensors[f"{family.model_type}.{names.TYPES}"]),
    }
    with making_folder(out) as made:
        write_weights(tensors, made)
        write_config(made, config)
        write_object(made / SETTINGS, settings)
        shutil.copyfile(folder / VOCABULARY, made / VOCABULARY)
    return f"{run} as {family.model_class}" + (", without its classification heads" if heads else "")


def _filled(cfg: argparse.Namespace, model: Dict[str, Tensor]) -> argparse.Namespace:
    """``cfg`` with every default of its architecture, and the longest text in tokens."""
    if ARCH_MODEL_REGISTRY.get(cfg.arch) is not RoFormerMaskedModel:
        raise CheckpointError(f"{cfg.arch} is not a masked language model of this plugin: only those can be converted")
    ARCH_CONFIG_REGISTRY[cfg.arch](cfg)
    base_architecture(cfg)
    cfg.layer_norm_eps = EPS if getattr(cfg, "layer_norm_eps", None) is None else cfg.layer_norm_eps
    table = model.get(f"{names.OURS}.position.weight")
    limits = (getattr(cfg, name, None) for name in ("max_positions", "tokens_per_sample", "max_source_positions"))
    cfg.max_positions = next(filter(None, limits)) if table is None else len(table)
    return cfg


def _family(cfg: argparse.Namespace) -> Family:
    """The library's model that does what this one does."""
    family = next((family for family in FAMILIES.values() if family.position == cfg.encoder_position), None)
    if family is None:
        raise CheckpointError(
            f"--encoder-position {cfg.encoder_position} cannot be converted: RoFormer has rope, BERT learned positions"
        )
    options = position_options(cfg, cfg.encoder_position)
    if options != type(options)():
        raise CheckpointError(
            "RoFormer has RoPE without options: `fairseq-rope convert --to interleaved` changes --rope-layout half"
        )
    check_gap(cfg, "transformers")
    expected = dict(encoder_normalize_before=False, layernorm_embedding=True, no_scale_embedding=True)
    for name, value in expected.items():
        if getattr(cfg, name) != value:
            raise CheckpointError(f"--{name.replace('_', '-')} must be {value} as in BERT, not {getattr(cfg, name)}")
    if cfg.activation_fn not in WRITTEN:
        raise CheckpointError(f"--activation-fn {cfg.activation_fn} must be one of {', '.join(WRITTEN)}")
    return family
