"""A model's fields in a configuration of Hydra (YAML), read as the flags of the same names.

Whatever the command line refuses is refused here as well: unknown names, values of another type, other choices.

The model registers no dataclass with fairseq. With one, fairseq would fill in every field before an architecture sets
its sizes, and checkpoints of the command line would hold a dictionary in place of the parsed arguments.
"""

from argparse import ArgumentParser, Namespace
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Tuple, cast

from omegaconf import OmegaConf, open_dict

TEXTS = ("encoder_layers_to_keep", "decoder_layers_to_keep")

NO_FLAGS = (
    *("_name", "arch", "no_token_positional_embeddings"),
    *("decoder_input_dim", "add_bos_token", "base_shuffle"),
    *TEXTS,
)
"""Fields that are handed on as they are: the architecture, a flag that is no masked model's and that all refuse, what
fairseq's presets derive from other fields, and two whose flags fairseq parses into what its model cannot read."""

KEPT = ("max_target_positions", "dictionaries", "base_layers")
"""Fields that :func:`keep` writes, and that are flags of some models alone, or of none."""


def fill(architecture: Callable[[Any], None], args: Any) -> None:
    """Applies an architecture's defaults to parsed arguments, or to a configuration, in place.

    A field that is null counts as not given.
    """
    if not OmegaConf.is_config(args):
        architecture(args)
        return
    given = Namespace(**{name: value for name, value in args.items() if value is not None})
    architecture(given)
    for name, value in vars(given).items():
        args[name] = value


def parse_fields(cfg: Any, add_args: Callable[[ArgumentParser], None]) -> Namespace:
    """A configuration as ``fairseq-train`` would have parsed it from flags.

    Args:
        cfg: the section ``model``: ``_name``, and flags without their dashes (``rope_base``, ``encoder_layers``).
            Parsed flags are returned as they are.
        add_args: adds the model's flags to a parser.

    Returns:
        What the configuration gives, and nothing else.

    Raises:
        ValueError: a field that is no flag, or a value that the flag refuses.
    """
    if not OmegaConf.is_config(cfg):
        return cast(Namespace, cfg)
    parser, flags = _parser(add_args)
    given = cast(Dict[str, Any], OmegaConf.to_container(cfg, resolve=True))
    fields = {name: value for name, value in given.items() if value is not None}
    no_flags = {*NO_FLAGS, *(name for name in KEPT if name not in flags)}
    others = {name: fields.pop(name) for name in no_flags if name in fields}
    for name in TEXTS:
        if not isinstance(others.get(name, ""), str):
            raise ValueError(f"model.{name} must be a text such as '0,2', not {others[name]!r}")
    words: List[str] = []
    for name, value in fields.items():
        if name not in flags:
            raise ValueError(f"model.{name}: no such option; they are those of `fairseq-train --arch`, with _ for -")
        is_switch = isinstance(flags[name], bool)
        if is_switch and not isinstance(value, bool):
            raise ValueError(f"model.{name} must be true or false, not {value!r}")
        if not is_switch or value:
            words.append(f"--{name.replace('_', '-')}" + ("" if is_switch else f"={value}"))
    parsed = vars(parser.parse_args(words))
    return Namespace(**others, **{name: parsed[name] for name in fields})


def keep(cfg: Any, **values: Any) -> None:
    """Writes what follows from the task into the section ``model`` of a configuration, for its checkpoints."""
    if OmegaConf.is_config(cfg):
        with open_dict(cfg):
            cfg.update(values)


def add_overrides(cfg: Any, overrides: Mapping[str, Any], add_args: Callable[[ArgumentParser], None]) -> None:
    """Writes those of ``--model-overrides`` that fairseq ignores into the section ``model`` of a checkpoint: flags that
    its configuration does not name."""
    _, flags = _parser(add_args)
    keep(cfg, **{name: value for name, value in overrides.items() if name in flags and name not in cfg})


def _parser(add_args: Callable[[ArgumentParser], None]) -> Tuple[ArgumentParser, Dict[str, Any]]:
    """The parser of a model's flags, and their defaults by name."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_args(parser)
    return parser, vars(parser.parse_args([]))


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"model: {message}")
