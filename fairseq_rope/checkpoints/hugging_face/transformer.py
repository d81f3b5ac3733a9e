"""What Hugging Face's translation models have in common here: fairseq's transformer with one table of words."""

import hashlib
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ...options import SIDES
from ..files import CheckpointError, making_folder
from .folders import CONFIG, Entries, Values, save_run, training, write_object
from .weights import Taken

ARCH = "transformer_sinusoidal_base"

NUMBERS: Entries = {
    **{f"{side}_layers": (f"{side}_layers", 0) for side in SIDES},
    **{f"{side}_ffn_embed_dim": (f"{side}_ffn_dim", 0) for side in SIDES},
    **{f"{side}_attention_heads": (f"{side}_attention_heads", 0) for side in SIDES},
    **{f"{side}_embed_dim": ("d_model", 0) for side in SIDES},
    **{f"max_{side}_positions": ("max_position_embeddings", 0) for side in ("source", "target")},
}
FRACTIONS: Entries = {name: (name, 0.0) for name in ("dropout", "attention_dropout", "activation_dropout")}
SWISH = "swish"
ACTIVATIONS = {SWISH: SWISH, "silu": SWISH, "relu": "relu", "gelu": "gelu", "tanh": "tanh"}


def configuration(values: Values, flags: Sequence[str]) -> Any:
    """fairseq's configuration of the model that config.json describes, with further flags of ``fairseq-train``.

    Raises:
        CheckpointError: a value has a wrong type, or the model does what ours do not.
    """
    for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings"):
        if not values.switch(name, True):
            raise values.error(name, "must be true: a model with several tables of words has no place here")
    activation = values.chosen("activation_function", "gelu", ACTIVATIONS)
    words = ["--activation-fn=relu", "--swish"] if activation == SWISH else [f"--activation-fn={activation}"]
    words += [] if values.switch("scale_embedding", False) else ["--no-scale-embedding"]
    words += ["--share-all-embeddings", "--share-decoder-input-output-embed", *values.flags(NUMBERS, FRACTIONS)]
    return training("--criterion", "fused_label_smoothed_cross_entropy", "--arch", ARCH, *words, *flags)


def names(cfg: Any) -> Iterator[Tuple[str, Tuple[int, ...]]]:
    """The parameters of the layers, which have the same names on both sides, and their shapes."""
    for side in SIDES:
        width, inner = (getattr(cfg, f"{side}_{name}") for name in ("embed_dim", "ffn_embed_dim"))
        attentions = ["self_attn", "encoder_attn"] if side == "decoder" else ["self_attn"]
        shapes: Dict[str, Tuple[int, ...]] = {
            f"{a}.{part}_proj": (width, width) for a in attentions for part in ("q", "k", "v", "out")
        }
        shapes.update({f"{a}_layer_norm": (width,) for a in attentions}, final_layer_norm=(width,))
        shapes.update(fc1=(inner, width), fc2=(width, inner))
        modules = {f"layers.{i}.{name}": shapes[name] for i in range(getattr(cfg, f"{side}_layers")) for name in shapes}
        if getattr(cfg, f"{side}_normalize_before"):
            modules["layer_norm"] = (width,)
        for name, shape in modules.items():
            yield f"{side}.{name}.weight", shape
            yield f"{side}.{name}.bias", shape[:1]


def take(taken: Taken, cfg: Any, types: int, order: List[int]) -> Dict[str, Tensor]:
    """The parameters of the model here.

    Args:
        types: rows of the table there.
        order: for each row here, the one there.

    Raises:
        CheckpointError: a tensor is missing, or has another shape than config.json says.
    """
    model = {name: taken.take(f"model.{name}", shape) for name, shape in names(cfg)}
    shared = ("model.shared.weight", "lm_head.weight", *(f"model.{side}.embed_tokens.weight" for side in SIDES))
    shape = (types, cfg.encoder_embed_dim)
    tables = [taken.take(name, shape) for name in shared if taken.has(name)] or [taken.take(shared[0], shape)]
    if not all(torch.equal(table, tables[0]) for table in tables):
        raise CheckpointError(f"{taken.where}: its tables of embeddings differ, and {CONFIG} says that they are one")
    table = tables[0][order]
    model.update({f"{side}.version": torch.tensor([3.0]) for side in SIDES})
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        model[f"{name}.weight"] = table
    return model


def make_run(
    out: Path,
    values: Values,
    files: Sequence[str],
    dictionaries: Dict[str, Dictionary],
    prepared: Dict[str, Any],
    cfg: Any,
    model: Dict[str, Tensor],
) -> None:
    """Makes the model folder ``out``.

    Args:
        values: config.json, for the way back.
        files: to copy from its folder; the tokenizer's, mostly.
        dictionaries: by the names of their files.
        prepared: the content of ``prepare.json``, without the hashes of ``files``.

    Raises:
        CheckpointError: ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    with making_folder(out) as made:
        save_run(made, dictionaries, cfg, model, {"config": values.given})
        for name in files:
            shutil.copyfile(values.path.with_name(name), made / name)
        hashes = {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in files}
        write_object(made / "prepare.json", {**prepared, "sha256": hashes})
