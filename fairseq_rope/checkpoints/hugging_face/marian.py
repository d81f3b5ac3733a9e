"""Reads a Hugging Face folder of MarianMT (OPUS-MT) into a model folder of this plugin, and writes it back.

Marian's transformer is fairseq's with norms behind the layers, sinusoids by the paper's formula, a bias of the logits
(``--output-bias``), and an input of the decoder that begins with the vector of the padding: here that of ``<s>``
(``--start-with-bos``), which Marian lacks. The logits are equal to rounding.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch import Tensor

from ...options import SIDES
from ...positions import SideConfig
from ...positions.absolute import SinusoidalEncoding, SinusoidalOptions
from ..configuration import check_gap, model_configuration
from ..files import CheckpointError, load_checkpoint, making_folder
from ..model_folder import check_files, read_dictionary, read_direction
from . import transformer
from .folders import CONFIG, MEMORY, TOKENIZER, Values, entries_of, place_of, read_object, write_config
from .transformer import FRACTIONS, NUMBERS, SWISH
from .weights import Taken, read_weights, write_weights

MODEL_TYPE = "marian"
WORDS, SOURCE, TARGET, SETTINGS = "vocab.json", "source.spm", "target.spm", "tokenizer_config.json"
FILES = (SOURCE, TARGET, WORDS, SETTINGS)
FURTHER = ("special_tokens_map.json", "generation_config.json")
"""Files that are copied if they are there."""

NEVER = -1e4
"""The bias of ``<s>``, which no translation has."""


def import_folder(folder: Path, out: Path) -> str:
    """Makes the model folder ``out``; returns what it became.

    Raises:
        CheckpointError: a file is missing or damaged, files do not fit together, the model does what ours do not, or
            ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    values, settings = Values(folder), read_object(folder / SETTINGS)
    check_files(folder, *FILES, remedy=TOKENIZER)
    if values.given.get("decoder_start_token_id") != values.given.get("pad_token_id"):
        raise values.error("decoder_start_token_id", "must be pad_token_id")
    languages = settings.get("source_lang"), settings.get("target_lang")
    if not all(isinstance(lang, str) and lang for lang in languages):
        raise CheckpointError(f"{folder / SETTINGS} names no source_lang and target_lang: write them there")
    source, target = map(str, languages)
    words, order = _dictionary(read_object(folder / WORDS), values)
    flags = ["--sinusoidal-formula", "paper", "--output-bias", "--start-with-bos"]
    cfg = transformer.configuration(values, ["--task", "translation", "-s", source, "-t", target, *flags])
    model = _to_plugin(read_weights(folder), cfg.model, order, folder)
    prepared = {"source": source, "target": target, "subwords": "marian", "marian": {"pieces": len(order) - 1}}
    files = (*FILES, *(name for name in FURTHER if (folder / name).is_file()))
    dictionaries = {f"dict.{lang}.txt": words for lang in (source, target)}
    transformer.make_run(out, values, files, dictionaries, prepared, cfg, model)
    return f"{folder} as {transformer.ARCH}, {source} to {target}"


def export_folder(run: Path, out: Path) -> str:
    """Makes the Hugging Face folder ``out`` of a model folder that has Marian's files; returns what it became.

    Raises:
        CheckpointError: a file is missing or damaged, MarianMT does not do what the model does, or ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    checkpoint, folder = place_of(run)
    state = load_checkpoint(checkpoint)
    cfg = model_configuration(state)
    ARCH_CONFIG_REGISTRY[cfg.arch](cfg)
    wanted: Dict[str, Any] = {"output_bias": True, "start_with_bos": True, "share_all_embeddings": True}
    wanted.update({f"{side}_position": "sinusoidal" for side in SIDES}, sinusoidal_formula="paper")
    wanted.update({f"{side}_normalize_before": False for side in SIDES}, layernorm_embedding=False)
    check_gap(cfg, "MarianMT")
    for name, value in wanted.items():
        if getattr(cfg, name, None) != value:
            flag = f"--{name.replace('_', '-')}"
            raise CheckpointError(f"{checkpoint}: {flag} is {getattr(cfg, name, None)}: MarianMT has only {value}")
    source, target = read_direction(folder, checkpoint.name)[:2]
    check_files(folder, *FILES, remedy="copy it from the folder that the model came from")
    numbers = read_object(folder / WORDS)
    symbols = read_dictionary(folder / f"dict.{target}.txt", "copy it again").symbols
    if sorted(symbols[1:]) != sorted(numbers):
        raise CheckpointError(f"{folder / WORDS} and dict.{target}.txt have different words: take both from one model")
    config = _config(cfg, numbers, state.get(MEMORY, {"config": {}})["config"])
    tensors = _to_marian(state["model"], cfg, [numbers[word] for word in symbols[1:]])
    with making_folder(out) as made:
        write_weights(tensors, made)
        write_config(made, config)
        for name in (*FILES, *(name for name in FURTHER if (folder / name).is_file())):
            shutil.copyfile(folder / name, made / name)
    return f"{run} as MarianMTModel, {source} to {target}"


def _dictionary(numbers: Dict[str, Any], values: Values) -> Tuple[Dictionary, List[int]]:
    """fairseq's dictionary of Marian's vocabulary, and for each of its rows the one there."""
    words = {number: word for word, number in numbers.items()}
    if set(words) != set(range(len(numbers))) or len(numbers) != values.whole("vocab_size", 58101):
        raise values.error("vocab_size", f"must be the number of words in {WORDS}, each with its own number")
    pad, eos = (values.whole(name, 0, least=0) for name in ("pad_token_id", "eos_token_id"))
    dictionary = Dictionary()
    if (words.get(pad), words.get(eos)) != ("<pad>", "</s>") or "<unk>" not in numbers or "<s>" in numbers:
        raise CheckpointError(f"{values.path.parent / WORDS}: <pad>, </s> and <unk> are not Marian's, or it has <s>")
    order = [pad, pad, eos, numbers["<unk>"]]  # <s> begins the decoder's input
    for number in range(len(words)):
        if words[number] not in dictionary.indices:
            dictionary.add_symbol(words[number])
            order.append(number)
    return dictionary, order


def _to_plugin(tensors: Dict[str, Tensor], cfg: Any, order: List[int], folder: Path) -> Dict[str, Tensor]:
    """The parameters of the model here."""
    types, width = len(order) - 1, cfg.encoder_embed_dim
    taken = Taken(tensors, str(folder), f"give the folder of a MarianMTModel with the {CONFIG} of its weights")
    model = transformer.take(taken, cfg, types, order)
    for side in SIDES:
        name = f"model.{side}.embed_positions.weight"
        if taken.has(name):
            _check_sinusoids(taken.take(name, (cfg.max_source_positions, width)), f"{folder}: {name}")
    bias = torch.zeros(1, types)
    if taken.has("final_logits_bias"):
        bias = taken.take("final_logits_bias", (1, types))
    taken.check_none_left()
    model["decoder.output_projection.bias"] = bias[0][order]
    model["decoder.output_projection.bias"][Dictionary().bos()] = NEVER
    return model


def _check_sinusoids(table: Tensor, name: str) -> None:
    rows, width = table.shape
    encoding = SinusoidalEncoding(SideConfig(width, 1, rows, 1, causal=False), SinusoidalOptions(formula="paper"))
    if not torch.allclose(table.float(), encoding.table(torch.device("cpu"), rows)[:rows], atol=1e-3):
        raise CheckpointError(f"{name} has other positions than Marian's sinusoids: they have no place here")


def _to_marian(model: Dict[str, Tensor], cfg: argparse.Namespace, order: List[int]) -> Dict[str, Tensor]:
    """The tensors of a MarianMTModel; the reverse of :func:`_to_plugin`.

    Args:
        order: for each row here but that of ``<s>``, the one there.
    """
    taken = Taken(model, "the checkpoint", "its options and its parameters do not fit: use what fairseq-train wrote")
    tensors = {f"model.{name}": taken.take(name, shape).clone() for name, shape in transformer.names(cfg)}
    table = taken.take("encoder.embed_tokens.weight", (len(order) + 1, cfg.encoder_embed_dim))
    bias = taken.take("decoder.output_projection.bias", (len(order) + 1,))
    bos, pad, back = Dictionary().bos(), Dictionary().pad(), torch.empty(len(order), dtype=torch.long)
    rows = table.clone()
    rows[pad] = table[bos]  # Marian's decoder begins with the padding
    back[torch.tensor(order)] = torch.arange(1, len(order) + 1)
    tensors["model.shared.weight"], tensors["final_logits_bias"] = rows[back], bias[back][None].clone()
    return tensors


def _config(cfg: argparse.Namespace, numbers: Dict[str, Any], given: Dict[str, Any]) -> Dict[str, Any]:
    """``config.json``: what was read once, with the sizes that the model has now."""
    config = {**given, **entries_of(cfg, NUMBERS, FRACTIONS)}
    config.setdefault("activation_function", SWISH if getattr(cfg, "swish", False) else cfg.activation_fn)
    ids = dict(pad_token_id=numbers["<pad>"], eos_token_id=numbers["</s>"], decoder_start_token_id=numbers["<pad>"])
    config.update(ids, vocab_size=len(numbers), model_type=MODEL_TYPE, scale_embedding=not cfg.no_scale_embedding)
    config.setdefault("architectures", ["MarianMTModel"])
    return {**config, "is_encoder_decoder": True, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}
