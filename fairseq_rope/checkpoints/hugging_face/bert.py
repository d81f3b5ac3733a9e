"""Reads a Hugging Face folder of a masked RoFormer or BERT into a model folder of this plugin, and writes it back.

::

    fairseq-rope convert FOLDER --to plugin --out RUN
    fairseq-rope convert RUN --to hugging-face --out FOLDER

The logits are equal to rounding. Token type 0 becomes a vector of its own (``--token-type-embedding``). The other
types, the pooler and the head for pairs of sentences have no place in the model: the checkpoint keeps them for the
way back.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.roberta.model import base_architecture
from omegaconf import OmegaConf
from torch import Tensor

from ...masked_lm import EPS, RoFormerMaskedModel
from ...wordpieces import SETTINGS, SPECIAL, VOCABULARY, read_settings, read_vocabulary
from ..configuration import model_configuration
from ..files import CheckpointError, load_checkpoint, making_folder, save_checkpoint
from ..model_folder import CHECKPOINT, DICTIONARY, read_dictionary
from . import names
from .configuration import CONFIG, Configuration, config_of, flags, read_configuration, read_object
from .weights import read_weights, write_weights

MEMORY = "hugging_face"
"""The entry of a converted checkpoint that serves the way back: config.json, and tensors that have no place here."""


def import_folder(folder: Path, out: Path) -> str:
    """Makes the model folder ``out``: ``checkpoint.pt``, ``dict.txt``, ``vocab.txt``, ``tokenizer_config.json``.

    Returns:
        What it became and what has no place there.

    Raises:
        CheckpointError: a file is missing or damaged, files do not fit together, the model does what ours do not, or
            ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    given = read_object(folder / CONFIG)
    config = read_configuration(given, folder / CONFIG)
    try:
        pieces = read_vocabulary(folder / VOCABULARY)
        settings = read_settings(folder, given.get("tokenizer_class") or config.kind.tokenizer)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    if len(pieces) != config.words:
        raise CheckpointError(
            f"{folder / VOCABULARY} has {len(pieces)} word pieces, but vocab_size is {config.words} in {CONFIG}: take "
            "both from one model"
        )
    if pieces.index("[PAD]") != config.pad:
        pad = pieces.index("[PAD]")
        raise CheckpointError(f"{folder / CONFIG}: pad_token_id is {config.pad}, but [PAD] is {pad} in {VOCABULARY}")
    words, order = _dictionary(pieces)
    model, unused = names.to_plugin(read_weights(folder), config, order, str(folder))
    with making_folder(out) as made:
        words.save(str(made / DICTIONARY))
        shutil.copyfile(folder / VOCABULARY, made / VOCABULARY)
        (made / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        save_checkpoint(
            {**_state(config), "model": model, MEMORY: {"config": given, "unused": unused}}, made / CHECKPOINT
        )
    return f"{folder} as {config.kind.arch}{_lost(config, unused)}"


def _lost(config: Configuration, unused: Dict[str, Tensor]) -> str:
    parts = ["the pooler"] if any("pooler" in name for name in unused) else []
    parts += ["the head for pairs of sentences"] if any("seq_relationship" in name for name in unused) else []
    parts += [f"token types above 0 ({config.token_types - 1})"] if config.token_types > 1 else []
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


def _state(config: Configuration) -> Dict[str, Any]:
    """A checkpoint without parameters, as fairseq-train would write it before the first update."""
    command = [".", "--task", "masked_lm", "--criterion", "fused_masked_lm", *flags(config)]
    args = options.parse_args_and_arch(options.get_training_parser("masked_lm"), command)
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
    cfg = OmegaConf.to_container(convert_namespace_to_omegaconf(args))
    return {"cfg": cfg, "optimizer_history": [history], "extra_state": {"train_iterator": {"epoch": 1}}}


def export_folder(run: Path, out: Path) -> str:
    """Makes the Hugging Face folder ``out``: ``config.json``, ``model.safetensors``, and the vocabulary's files.

    Args:
        run: a model folder of a masked language model with ``vocab.txt``, or one of its checkpoints.
        out: the folder to make.

    Returns:
        What it became and what has no place there.

    Raises:
        CheckpointError: a file is missing or damaged, neither RoFormer nor BERT of the library does what the model
            does, or ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    checkpoint, folder = (run / CHECKPOINT, run) if run.is_dir() else (run, run.parent)
    state = load_checkpoint(checkpoint)
    cfg = _filled(model_configuration(state))
    if not (folder / VOCABULARY).is_file():
        raise CheckpointError(f"{folder / VOCABULARY}: missing: only models of BERT's word pieces have a place there")
    try:
        pieces, settings = read_vocabulary(folder / VOCABULARY), read_settings(folder)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    words = read_dictionary(folder / DICTIONARY, f"take {DICTIONARY} of the run's data").symbols
    if sorted(words) != sorted(SPECIAL.get(piece, piece) for piece in pieces):
        raise CheckpointError(f"{folder / VOCABULARY} and {DICTIONARY} have different words: take both from one model")
    numbers = {SPECIAL.get(piece, piece): number for number, piece in enumerate(pieces)}
    memory = _memory(state, cfg)
    sizes = {
        "vocab_size": len(words),
        "max_position_embeddings": _positions(cfg, state["model"]),
        "type_vocab_size": len(memory["unused"].get(memory["types"], [0])),
    }
    given = config_of(cfg, sizes, numbers["<pad>"], memory["config"])
    config = read_configuration(given, out / CONFIG)
    heads = [name for name in state["model"] if name.startswith("classification_heads.")]
    model = {name: value for name, value in state["model"].items() if name not in heads}
    tensors = names.to_hugging_face(model, config, [numbers[word] for word in words], memory["unused"])
    with making_folder(out) as made:
        write_weights(tensors, made)
        (made / CONFIG).write_text(json.dumps(given, indent=2) + "\n", encoding="utf-8")
        (made / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        shutil.copyfile(folder / VOCABULARY, made / VOCABULARY)
    return f"{run} as {config.kind.model_class}" + (", without its classification heads" if heads else "")


def _filled(cfg: argparse.Namespace) -> argparse.Namespace:
    """``cfg`` with every default of its architecture.

    Raises:
        CheckpointError: it is no masked language model of this plugin.
    """
    if not isinstance(cfg.arch, str) or ARCH_MODEL_REGISTRY.get(cfg.arch) is not RoFormerMaskedModel:
        raise CheckpointError(
            f"{cfg.arch!a:.100} is not a masked language model of this plugin: only those can be converted"
        )
    if not isinstance(getattr(cfg, "encoder_position", ""), str):
        raise CheckpointError(f"--encoder-position {cfg.encoder_position!a:.100} cannot be converted")
    ARCH_CONFIG_REGISTRY[cfg.arch](cfg)
    base_architecture(cfg)
    cfg.layer_norm_eps = EPS if getattr(cfg, "layer_norm_eps", None) is None else cfg.layer_norm_eps
    return cfg


def _positions(cfg: argparse.Namespace, model: Dict[str, Tensor]) -> int:
    """The longest text of the model, in tokens."""
    table = model.get(f"{names.OURS}.position.weight")
    if table is not None:
        return len(table)
    return getattr(cfg, "max_positions", None) or getattr(cfg, "tokens_per_sample", None) or cfg.max_source_positions


def _is_json(name: Any, value: Any) -> bool:
    """Whether an entry can stand in config.json."""
    try:
        json.dumps({name: value}, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(name, str)


def _memory(state: Dict[str, Any], cfg: argparse.Namespace) -> Dict[str, Any]:
    """What :func:`import_folder` stored, as far as it fits the model; another program may have written it."""
    memory = state.get(MEMORY)
    memory = memory if isinstance(memory, dict) else {}
    config, unused = memory.get("config"), memory.get("unused")
    config = {
        name: value for name, value in (config if isinstance(config, dict) else {}).items() if _is_json(name, value)
    }
    types = f"{config.get('model_type')}.{names.TYPES}"
    unused = {
        name: value
        for name, value in (unused if isinstance(unused, dict) else {}).items()
        if isinstance(value, Tensor) and (name != types or value.shape[1:] == (cfg.encoder_embed_dim,))
    }
    return {"config": config, "unused": unused, "types": types}
