"""What Hugging Face's translation models have in common here: fairseq's transformer with one table of words."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor

from ..files import CheckpointError, making_folder, save_checkpoint
from ..model_folder import CHECKPOINT
from .configuration import CONFIG, Values
from .names import Taken

ARCH = "transformer_sinusoidal_base"
SIDES = ("encoder", "decoder")
MEMORY = "hugging_face"

NUMBERS = {
    **{f"{side}-layers": f"{side}_layers" for side in SIDES},
    **{f"{side}-ffn-embed-dim": f"{side}_ffn_dim" for side in SIDES},
    **{f"{side}-attention-heads": f"{side}_attention_heads" for side in SIDES},
    **{f"{side}-embed-dim": "d_model" for side in SIDES},
    **{f"max-{side}-positions": "max_position_embeddings" for side in ("source", "target")},
}
"""Options of the model here, to entries of config.json."""
SHARES = {"dropout": "dropout", "attention-dropout": "attention_dropout", "activation-dropout": "activation_dropout"}
SWISH = "swish"
ACTIVATIONS = {SWISH: SWISH, "silu": SWISH, "relu": "relu", "gelu": "gelu", "tanh": "tanh"}


def check_files(folder: Path, names: Sequence[str]) -> None:
    """Raises CheckpointError if one of these files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name}: missing: give the model's folder with its tokenizer")


def configuration(values: Values, flags: Sequence[str]) -> Any:
    """fairseq's configuration of the model that config.json describes, with further flags of ``fairseq-train``.

    Raises:
        CheckpointError: a value has a wrong type, or the model does what ours do not.
    """
    for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings"):
        if not values.switch(name, True):
            raise values.error(name, "must be true: a model with several tables of words has no place here")
    activation = values.given.get("activation_function", "gelu")
    if activation not in ACTIVATIONS:
        raise values.error("activation_function", f"must be one of {', '.join(ACTIVATIONS)}")
    found = {name: str(values.whole(entry, 0)) for name, entry in NUMBERS.items()}
    found.update({name: str(values.fraction(entry, 0.0)) for name, entry in SHARES.items()})
    is_swish = ACTIVATIONS[activation] == SWISH
    found.update({"arch": ARCH, "activation-fn": "relu" if is_swish else activation})
    words = [word for name, value in found.items() for word in (f"--{name}", value)] + ["--swish"] * is_swish
    words += [] if values.switch("scale_embedding", False) else ["--no-scale-embedding"]
    words += ["--share-all-embeddings", "--share-decoder-input-output-embed", *flags]
    command = [".", "--criterion", "fused_label_smoothed_cross_entropy", *words]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))


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


def check_none_left(taken: Taken) -> None:
    """Raises CheckpointError if a tensor was not taken."""
    if taken.left:
        raise CheckpointError(f"{taken.where}: {sorted(taken.left)[0]!a:.100} has no place here: {taken.remedy}")


def make_run(
    out: Path,
    folder: Path,
    files: Sequence[str],
    dictionaries: Dict[str, Dictionary],
    prepared: Dict[str, Any],
    state: Dict[str, Any],
    given: Dict[str, Any],
) -> None:
    """Makes a model folder.

    Args:
        out: the folder to make.
        files: to copy from ``folder``; the tokenizer's, mostly.
        dictionaries: by the names of their files.
        prepared: the content of ``prepare.json``, without the hashes of ``files``.
        state: ``cfg`` of fairseq, and ``model``, the parameters.
        given: the content of config.json, for the way back.

    Raises:
        CheckpointError: ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    with making_folder(out) as made:
        for name, words in dictionaries.items():
            words.save(str(made / name))
        for name in files:
            shutil.copyfile(folder / name, made / name)
        hashes = {name: hashlib.sha256((made / name).read_bytes()).hexdigest() for name in files}
        text = json.dumps({**prepared, "sha256": hashes}, indent=1)
        (made / "prepare.json").write_text(text + "\n", encoding="utf-8")
        history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
        extra = {"optimizer_history": [history], "extra_state": {"train_iterator": {"epoch": 1}}}
        cfg = OmegaConf.to_container(state["cfg"])
        save_checkpoint({**state, **extra, "cfg": cfg, MEMORY: {"config": given}}, made / CHECKPOINT)
