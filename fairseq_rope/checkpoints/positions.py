"""Gives a trained model other position encodings; what has nothing to do with positions stays bit-identical.

A new model is built with the new options. It takes all parameters over but those of positions. Of these it takes what
both encodings have (a table of learned positions, TUPE's projections). The others begin as in a new training.
"""

import argparse
import copy
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from torch import Tensor

from ..kinds import Kind
from ..loading import TABLE, dictionary_of
from ..options import IN_TRAINING, SIDES, changes, encodings_of, flags_of, options_of, to_flag
from ..positions import POSITIONS, PositionEncoding
from ..positions.absolute import LearnedEncoding
from ..positions.untied import ProjectedPositions
from . import multilingual
from .configuration import changed, model_configuration, with_task_options
from .fairseq_transformer import MEMORY, architecture, kind_of_arch
from .fairseq_transformer import convert_checkpoint as convert_stock
from .files import CheckpointError
from .model_folder import task_options

TABLES = {LearnedEncoding: "weight", ProjectedPositions: "table"}
"""Encodings with a trained row for each position, and the parameter that holds them."""

LIMITS = ("max_source_positions", "max_target_positions", "max_positions")

OF_NO_ENCODING = (*LIMITS, "position_gap")
"""Options of positions that any encoding has."""

HEADS = "classification_heads."
"""The beginning of the names of a fine-tuned model's heads, which a new model lacks."""

OUTPUT_WIDTH = "decoder_output_dim"
"""Follows from ``--decoder-embed-dim``: fairseq reads its flag as a text, with which no model can be built."""

COMPUTED = (
    *(f"{side}_{name}" for side in SIDES for name in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")),
    *("encoder_normalize_before", "decoder_normalize_before", "no_decoder_final_norm"),
    *("decoder_input_dim", OUTPUT_WIDTH),
    *("activation_fn", "swish", "output_bias", "start_with_bos", "layernorm_embedding", "no_scale_embedding"),
    *("no_cross_attention", "adaptive_softmax_cutoff", "layer_norm_eps", "token_type_embedding"),
    *("share_all_embeddings", "share_decoder_input_output_embed", "merge_src_tgt_embed", "untie_weights_roberta"),
    *("scale_fc", "scale_attn", "scale_heads", "scale_resids"),
)
"""Options that decide what a model computes, apart from positions and regularisation."""


class Change(NamedTuple):
    """A converted checkpoint, and the names of parameters: those of the layers once, with ``*`` for their number."""

    state: Dict[str, Any]
    positions: str  # what the new encodings have in place of the old ones, in flags
    dropped: List[str]
    new: List[str]
    resized: List[str]  # tables whose rows are kept as far as both have them

    def report(self, seed: int) -> str:
        parts = [("dropped", self.dropped), (f"new (seed {seed})", self.new), ("resized", self.resized)]
        lists = [f"{what}: {', '.join(names)}" for what, names in parts if names]
        return "; ".join([*filter(None, [self.positions]), *lists])


def convert_checkpoint(state: Dict[str, Any], fields: Mapping[str, Any], seed: int = 1) -> Change:
    """The same model with other positions, without the optimizer's state and moving averages; ``state`` stays.

    Args:
        state: a loaded checkpoint of this plugin's, or of fairseq's own transformers.
        fields: what is new in the model's configuration: ``encoder_position``, ``decoder_position`` (``position`` is
            both), options of encodings, :data:`OF_NO_ENCODING`; None leaves a field as it is.
        seed: of the new parameters.

    Raises:
        ValueError: the model is of another kind, an option does not fit it, or a parameter is missing.
    """
    state, cfg, kind = _as_plugin(state)
    before = {side: getattr(cfg, f"{side}_position") for side in kind.sides}
    _set_fields(cfg, kind, fields)
    _check_layout(model_configuration(state), cfg, before)
    model, _ = _new_model(state, cfg, seed)
    heads = {name: value for name, value in state["model"].items() if name.startswith(HEADS)}
    old = {name: value for name, value in state["model"].items() if name not in heads}
    new = model.state_dict()
    model.upgrade_state_dict(old)  # names that fairseq had earlier
    kept, resized, fresh = {}, [], []
    for name, value in new.items():
        if _is_position(name):
            side = name.split(".")[0]
            pair = POSITIONS[before[side]], POSITIONS[getattr(cfg, f"{side}_position")]
            rows = _rows_in_common(name, pair, old, value)
            if rows is None:
                fresh.append(name)
            elif old[name].shape != value.shape:
                resized.append(f"{name} ({len(old[name])} rows to {len(value)})")
            kept[name] = value if rows is None else rows
        elif not name.endswith(".version") and (name not in old or old[name].shape != value.shape):
            has = f"{tuple(old[name].shape)}" if name in old else "nothing"
            raise CheckpointError(f"{name}: the checkpoint has {has} where its options make {tuple(value.shape)}")
    dtype = next(value.dtype for name, value in old.items() if name.endswith(TABLE))
    others = {name: value for name, value in old.items() if not _is_position(name)}
    positions = {name: value.to(dtype) for name, value in kept.items()}
    dropped = [name for name in old if _is_position(name) and (name not in kept or name in fresh)]
    converted = changed(state, cfg, {**others, **positions, **heads})
    converted.pop(MEMORY, None)
    # fairseq takes the smaller limit of task and model
    converted = with_task_options(converted, {name: fields[name] for name in LIMITS if fields.get(name)})
    said = changes(encodings_of(model_configuration(state)), encodings_of(cfg))
    return Change(converted, said, _by_layers(dropped), _by_layers(fresh), _by_layers(resized))


def convert_for(state: Dict[str, Any], args: argparse.Namespace, seed: int) -> Change:
    """The same model with the positions of ``args``, the options of a training that begins with it.

    Raises:
        ValueError: more than positions differs; or as :func:`convert_checkpoint`.
    """
    arch, (_, stored, kind) = model_configuration(state).arch, _as_plugin(state)
    if kind_of_arch(args.arch) is None:
        raise CheckpointError(f"{args.arch} is not an architecture of this plugin: choose one that is")
    if kind != kind_of_arch(args.arch):
        raise CheckpointError(f"{arch} is another kind of model than --arch {args.arch}")
    _, here = _new_model(state, args, seed)
    values = {name: [getattr(options, name, None) or None for options in (stored, here)] for name in COMPUTED}
    others = [(to_flag(name), *pair) for name, pair in values.items() if pair[0] != pair[1]]
    if others:
        told = ", ".join(f"{flag} is {one} in the checkpoint, {other} here" for flag, one, other in others)
        raise CheckpointError(f"more than positions differs: {told}")
    fields = {name: getattr(args, name, None) for name in (*(f"{side}_position" for side in kind.sides), *LIMITS)}
    fields["position_gap"] = getattr(args, "position_gap", None) or 1
    for name, options, _ in encodings_of(args).values():  # with the defaults that the training will have
        fields.update({f"{POSITIONS[name].prefix}_{option}": value for option, value in vars(options).items()})
    return convert_checkpoint(state, fields, seed)


def with_options_of(
    state: Dict[str, Any], flags: Mapping[str, Sequence[str]], given: Mapping[str, Sequence[str]]
) -> Dict[str, List[str]]:
    """``flags`` of ``fairseq-train`` with the architecture, the sizes and all other options of a checkpoint's model; of
    one of several languages, with its task.

    Args:
        state: the loaded checkpoint; its options replace those among ``flags``.
        flags, given: flags to the words that follow them. Those that are ``given`` replace the checkpoint's; options of
            encodings that they replace are left out.

    Raises:
        ValueError: the model has no form in this plugin.
    """
    _, cfg, kind = _as_plugin(state)
    arch = architecture(cfg, kind)
    parser = argparse.ArgumentParser(add_help=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    known = vars(parser.parse_args([]))
    sides = [f"{side}_position" for side in kind.sides]
    encodings = {" ".join(given.get(to_flag(side), [getattr(cfg, side)])) for side in sides}
    left_out = {OUTPUT_WIDTH, *options_of(*POSITIONS)} - {*options_of(*encodings & POSITIONS.keys())}
    names = (*COMPUTED, *sides, *OF_NO_ENCODING, *options_of(*POSITIONS))
    others = {flag: list(words) for flag, words in flags.items() if flag not in map(to_flag, names)}
    own = flags_of(cfg, [name for name in names if name in known and name not in left_out])
    task = task_options(state)
    tags = multilingual.flags(task) if multilingual.is_multilingual(task) else {}
    return {**others, "--arch": [arch], **own, **tags}


def _as_plugin(state: Dict[str, Any]) -> Tuple[Dict[str, Any], argparse.Namespace, Kind]:
    """A checkpoint as one of this plugin's, the model's configuration in it, and its kind."""
    if kind_of_arch(model_configuration(state).arch) is None:
        state = convert_stock(state, "plugin")
    cfg = model_configuration(state)
    kind = kind_of_arch(cfg.arch)
    assert kind is not None
    return state, cfg, kind


def _set_fields(cfg: argparse.Namespace, kind: Kind, fields: Mapping[str, Any]) -> None:
    """Sets the new options and forgets those of encodings that are not there any more."""
    given = {name: value for name, value in fields.items() if value is not None}
    for side in SIDES:
        name, value = f"{side}_position", given.get(f"{side}_position")
        if value is not None and side not in kind.sides:
            raise CheckpointError(f"--{side}-position {value}: the model has no {side}")
        if side in kind.sides:
            setattr(cfg, name, value or given.get("position") or getattr(cfg, name))
    used = options_of(*(getattr(cfg, f"{side}_position") for side in kind.sides))
    for name in options_of(*POSITIONS):
        if name not in used and hasattr(cfg, name):
            delattr(cfg, name)
    for name in (*options_of(*POSITIONS), *OF_NO_ENCODING):
        if name in given:
            setattr(cfg, name, given[name])
    if any(POSITIONS[getattr(cfg, f"{side}_position")].attention == "linear" for side in kind.sides):
        cfg.attention_dropout = 0.0  # it forms no weights to drop
    if "position_gap" not in given and {getattr(cfg, f"{side}_position") for side in kind.sides} == {"none"}:
        cfg.position_gap = None
    for name in IN_TRAINING:  # of a training, which says it anew
        setattr(cfg, name, 0)
    cfg.only_train = None  # likewise
    cfg.arch = architecture(cfg, kind)


def _check_layout(old: Any, cfg: Any, before: Mapping[str, str]) -> None:
    """Raises CheckpointError if a side would pair other channels of queries and keys than those that it was trained
    with: that changes what its projections mean."""
    for side, name in before.items():
        pair = [
            (POSITIONS[encoding].prefix, options)
            for encoding, options in ((name, old), (getattr(cfg, f"{side}_position"), cfg))
            if hasattr(POSITIONS[encoding].Options(), "layout")
        ]
        layouts = [getattr(options, f"{prefix}_layout", None) or "interleaved" for prefix, options in pair]
        if len(set(layouts)) > 1:
            raise CheckpointError(
                f"the {side} pairs channels in the layout {layouts[0]}: give --{pair[1][0]}-layout {layouts[0]}, or "
                "convert the layout first (--to)"
            )


def _new_model(state: Dict[str, Any], cfg: argparse.Namespace, seed: int) -> Tuple[Any, argparse.Namespace]:
    """A new model with the options ``cfg``, for dictionaries of the sizes of the embeddings; the options, completed."""
    cfg = copy.copy(cfg)
    options = argparse.Namespace(**{"add_bos_token": False, **task_options(state)})
    for name in LIMITS[:2]:  # which may be the task's alone
        if getattr(cfg, name, None) is None and getattr(options, name, None):
            setattr(cfg, name, getattr(options, name))
    sizes = [len(value) for name, value in state["model"].items() if name.endswith(TABLE)]
    if not sizes:
        raise CheckpointError("the checkpoint has no embeddings (embed_tokens.weight)")
    source, target = dictionary_of(sizes[0]), dictionary_of(sizes[-1])
    task = argparse.Namespace(source_dictionary=source, target_dictionary=target, args=options)
    task.max_positions = lambda: getattr(options, "tokens_per_sample", None)
    cfg._name, cfg.encoder_embed_path, cfg.decoder_embed_path = cfg.arch, None, None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(cfg, task), cfg


def _is_position(name: str) -> bool:
    return "position" in name.split(".")


def _rows_in_common(
    name: str, pair: Tuple[type[PositionEncoding], type[PositionEncoding]], old: Mapping[str, Tensor], value: Tensor
) -> Any:
    """What the new parameter ``value`` takes over from the old one of this name; None: nothing, as it is another thing.

    Parameters of two encodings mean the same if a class that both inherit from makes them.
    """
    one, other = (set(encoding.__mro__) - set(PositionEncoding.__mro__) for encoding in pair)
    if name not in old or not one & other:
        return None
    if pair[0] is pair[1] and old[name].shape == value.shape:
        return old[name]
    tables = [parameter for encoding, parameter in TABLES.items() if encoding in one & other]
    if name.split(".position.")[-1] in tables and old[name].shape[1:] == value.shape[1:]:
        before = [getattr(encoding, "rows_before", 0) for encoding in pair]
        if before[0] == before[1]:
            before = [0, 0]
        rows = min(len(old[name]) - before[0], len(value) - before[1])
        taken = value.clone()
        taken[before[1] : before[1] + rows] = old[name][before[0] : before[0] + rows]
        return taken
    return old[name] if old[name].shape == value.shape else None


def _by_layers(names: List[str]) -> List[str]:
    return list(dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in names))
