"""From flags to encodings: the options of the command line, their checks, and the encoding that they describe."""

import dataclasses
from argparse import ArgumentParser, Namespace
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from fairseq.models.transformer import TransformerConfig
from torch import nn

from .positions import POSITIONS, PositionEncoding, SideConfig

SIDES = ("encoder", "decoder")

IN_TRAINING = ("position_shift", "position_sample")
"""Options for the positions of a training, which its model does not have afterwards."""

Encodings = Dict[str, Tuple[str, Any, int]]
"""Side, to the name of its encoding, the options, and ``--position-gap``."""


def add_position_args(parser: ArgumentParser, sides: Sequence[str] = SIDES) -> None:
    """Adds ``--encoder-position``, ``--decoder-position`` and the flags of each registered encoding."""
    for side in sides:
        parser.add_argument(
            f"--{side}-position", choices=sorted(POSITIONS), help=f"position encoding of the {side}'s self-attention"
        )
    add_encoding_args(parser, *POSITIONS)


def add_training_args(parser: ArgumentParser) -> None:
    """Adds the flags of :data:`IN_TRAINING`, ``--position-gap`` and ``--only-train``."""
    parser.add_argument(
        "--position-shift",
        type=int,
        default=0,
        metavar="K",
        help="in training, add an offset from 0 to K to the positions of each sequence (SHAPE)",
    )
    parser.add_argument(
        "--position-sample",
        type=int,
        default=0,
        metavar="K",
        help="in training, draw the positions of each batch from 0 to K - 1, in ascending order",
    )
    parser.add_argument(
        "--position-gap",
        type=int,
        metavar="G",
        help="where positions are not drawn, neighbours are G apart; with --position-sample K: K divided by the tokens "
        "of the longest inputs in training",
    )
    parser.add_argument(
        "--only-train",
        metavar="REGEX",
        help="train only parameters in whose names this is found, as in 'self_attn|position'; the others stay as they "
        "are, and the optimizer keeps no state of them (default: train all)",
    )


def add_encoding_args(parser: ArgumentParser, *names: str) -> None:
    """Adds the flags of these encodings."""
    for option, field in options_of(*names).items():
        kwargs: Dict[str, Any] = {"action": "store_true", "help": field.metadata["help"]}
        if not isinstance(field.default, bool):
            kwargs = {
                "type": type(field.default),
                "choices": field.metadata.get("choices"),
                "help": f"{field.metadata['help']} (default: {field.default})",
            }
        parser.add_argument(to_flag(option), **kwargs)


def options_of(*names: str) -> Dict[str, "dataclasses.Field[Any]"]:
    """The options of these encodings, some of which share a prefix: configuration name to field."""
    encodings = [POSITIONS[name] for name in names]
    return {f"{e.prefix}_{field.name}": field for e in encodings for field in dataclasses.fields(e.Options)}


def to_flag(option: str) -> str:
    """The flag of an option, by its name in a configuration."""
    return f"--{option}".replace("_", "-")


def flags_of(cfg: Any, names: Iterable[str]) -> Dict[str, List[str]]:
    """Those of these options that a configuration has, as flags to the words that follow them."""
    flags: Dict[str, List[str]] = {}
    for name in names:
        value = getattr(cfg, name, None)
        if value is not None and value is not False:
            words = value if isinstance(value, (list, tuple)) else [value]
            flags[to_flag(name)] = [] if value is True else [",".join(map(str, words))]
    return flags


def build_position(
    cfg: TransformerConfig, side: str, embed_tokens: nn.Embedding, special_idx: Optional[int], limit_flag: str = ""
) -> PositionEncoding:
    """Builds the encoding of one side from the configuration.

    Args:
        special_idx: the special symbol; None: the first token of each text.
        limit_flag: the flag that sets the longest sentence, if it is not that of translation.

    Raises:
        ValueError: an unknown name, or an option that does not fit the side's dimensions.
    """
    name = getattr(cfg, f"{side}_position", None)
    if name not in POSITIONS:
        raise ValueError(f"--{side}-position must be one of {', '.join(sorted(POSITIONS))}, not {name!r}")
    side_cfg = getattr(cfg, side)
    if side_cfg.attention_heads < 1:
        raise ValueError(f"--{side}-attention-heads must be at least 1, not {side_cfg.attention_heads}")
    if side_cfg.embed_dim % side_cfg.attention_heads:
        raise ValueError(
            f"--{side}-embed-dim {side_cfg.embed_dim} must be divisible by "
            f"--{side}-attention-heads {side_cfg.attention_heads}"
        )
    config = SideConfig(
        embed_dim=side_cfg.embed_dim,
        num_heads=side_cfg.attention_heads,
        max_positions=cfg.max_source_positions if side == "encoder" else cfg.max_target_positions,
        padding_idx=int(embed_tokens.padding_idx or 0),
        causal=side == "decoder",
        special_idx=special_idx,
        limit_flag=limit_flag,
        shift=int(getattr(cfg, "position_shift", None) or 0),
        sample=int(getattr(cfg, "position_sample", None) or 0),
        gap=int(getattr(cfg, "position_gap", None) or 1),
    )
    if config.max_positions < 1:
        raise ValueError(f"{config.limit} must be at least 1, not {config.max_positions}")
    if config.sample > config.max_positions:
        raise ValueError(
            f"--position-sample {config.sample} is above {config.limit} {config.max_positions}: raise that"
        )
    return POSITIONS[name](config, position_options(cfg, name))


def position_options(cfg: Any, name: str) -> Any:
    """The options of the encoding ``name`` in a configuration, with defaults for those that it lacks or has as null.

    In YAML a number may be a text.
    """
    values = {}
    for option, field in options_of(name).items():
        default: Any = field.default
        given = getattr(cfg, option, None)
        values[field.name] = default if given is None else type(default)(given)
    return POSITIONS[name].Options(**values)


def is_position_option(name: str) -> bool:
    """Whether a field of a configuration chooses an encoding, is an option of one, or spaces positions."""
    return name == "position_gap" or name in options_of(*POSITIONS) or name in [f"{side}_position" for side in SIDES]


def encodings_of(cfg: Any) -> Encodings:
    """The encodings that a configuration names; none for fairseq's own models."""
    cfg = Namespace(**cfg) if isinstance(cfg, dict) else cfg
    names = {side: getattr(cfg, f"{side}_position", None) for side in SIDES}
    gap = int(getattr(cfg, "position_gap", None) or 1)
    return {side: (name, position_options(cfg, name), gap) for side, name in names.items() if name in POSITIONS}


def changes(one: Encodings, other: Encodings) -> str:
    """What ``other`` has in place of ``one``, in flags, on the sides that both have; empty if they are the same."""
    found = []
    for side in (side for side in SIDES if side in one and side in other):
        (name, options, gap), (other_name, others, other_gap) = one[side], other[side]
        if gap != other_gap:
            found.append(f"--position-gap {other_gap} in place of {gap}")
        if name != other_name:
            found.append(f"--{side}-position {other_name} in place of {name}")
            continue
        for option, value in vars(options).items():
            if vars(others)[option] != value:
                flag = to_flag(f"{POSITIONS[name].prefix}_{option}")
                found.append(f"{flag} {vars(others)[option]} in place of {value}")
    return ", ".join(dict.fromkeys(found))


def check_precision(options: Any) -> None:
    """Raises ValueError for ``--amp`` with ``--bf16``, where fairseq would train parameters in bf16."""
    if getattr(options, "amp", False) and getattr(options, "bf16", False):
        raise ValueError("--amp and --bf16 cannot be combined: leave one of them out")


def reject_unsupported(args: Any) -> None:
    """Raises ValueError for options that the model would ignore: some of fairseq's, and those of unused encodings."""
    by_name = "--encoder-position and --decoder-position"
    one_table = "the embeddings of this model are one table"
    unsupported = {
        "no_token_positional_embeddings": f"choose `none` with {by_name}, or --arch transformer_none_*",
        "encoder_learned_pos": f"choose `learned` with {by_name}",
        "decoder_learned_pos": f"choose `learned` with {by_name}",
        "adaptive_input": one_table,
        "character_embeddings": one_table,
        "char_inputs": one_table,
        "tie_adaptive_weights": one_table,
        "cross_self_attention": "its keys mix source and target, which have no common positions",
        "encoder_xformers_att_config": "the attention of this model is PyTorch's own",
        "decoder_xformers_att_config": "the attention of this model is PyTorch's own",
        "base_layers": "mixture-of-experts layers have no self-attention to hand positions to",
    }
    for option, reason in unsupported.items():
        if getattr(args, option, None):
            raise ValueError(f"--{option.replace('_', '-')} is not supported here: {reason}")
    _reject_unused(args)
    _reject_in_training(args)


def _reject_in_training(args: Any) -> None:
    """Raises ValueError for options of :data:`IN_TRAINING` and ``--position-gap`` that would change nothing, or
    contradict each other."""
    values = {name: int(getattr(args, name, None) or 0) for name in (*IN_TRAINING, "position_gap")}
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{to_flag(name)} must not be negative, but is {value}")
    shift, sample, gap = values.values()
    if shift and (sample or gap > 1):
        raise ValueError("--position-shift does not go with --position-sample and --position-gap: choose one")
    if sample and not gap:
        raise ValueError(
            "--position-sample needs --position-gap, the distance of neighbours when the model translates: K divided "
            "by the tokens of the longest inputs in training"
        )
    names = POSITIONS.keys() & {getattr(args, f"{side}_position", None) for side in SIDES}
    if shift and all(POSITIONS[name].shift_invariant for name in names):
        raise ValueError(
            f"--position-shift changes nothing for {' and '.join(sorted(names))}: only distances matter; leave it out"
        )
    if (sample or gap > 1) and names == {"none"}:
        flag = "sample" if sample else "gap"
        raise ValueError(f"--position-{flag} changes nothing for none, which has no positions: leave it out")


def _reject_unused(args: Any) -> None:
    """Raises ValueError for options of an encoding that no side uses, or that the side of the option does not use."""
    used, sides = set(), [side for side in SIDES if getattr(args, f"{side}_position", None)]
    for side in sides:
        fields = options_of(*POSITIONS.keys() & {getattr(args, f"{side}_position")})
        used |= {option for option, field in fields.items() if field.metadata.get("side", side) == side}
    for name in POSITIONS:
        for option, field in options_of(name).items():
            if option not in used and getattr(args, option, None) not in (None, field.default):
                only_side = field.metadata.get("side")
                if only_side and only_side not in sides:
                    raise ValueError(f"{to_flag(option)} is for an {only_side}, which this model lacks: leave it out")
                unused = f"the {only_side} does not use" if only_side else "neither side uses"
                raise ValueError(f"{to_flag(option)} belongs to the encoding {name}, which {unused}: leave it out")
