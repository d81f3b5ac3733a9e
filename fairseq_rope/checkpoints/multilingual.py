"""The languages of a model of several, as fairseq's task ``translation_multi_simple_epoch`` trains it with tags."""

from argparse import Namespace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_data_manager import MultilingualDatasetManager
from fairseq.data.multilingual.multilingual_utils import augment_dictionary, get_lang_tok

from ..options import flags_of
from .files import CheckpointError

TASK = "translation_multi_simple_epoch"

OF_TAGS = ("encoder_langtok", "decoder_langtok", "lang_tok_style", "langtoks_specs")
"""Options of the task that say which tags there are and where."""


class Direction(NamedTuple):
    """From which language to which a model translates, and the tags that tell it so."""

    source: str
    target: str
    source_tag: str = ""
    """The token in front of a source; empty: none."""
    target_tag: str = ""
    """The token with which a translation begins; empty: none."""


def is_multilingual(task: Dict[str, Any]) -> bool:
    """Whether these options of a task are those of a model of several languages."""
    return TASK in (task.get("task"), task.get("_name"))


def languages(task: Dict[str, Any]) -> List[str]:
    """All languages, in the order of their tags in the dictionary."""
    found: List[str] = MultilingualDatasetManager.load_langs(Namespace(**task))
    return found


def pairs(task: Dict[str, Any]) -> List[Tuple[str, str]]:
    """The directions of the training; none if they are not known."""
    given = task.get("lang_pairs") or []
    split = [pair.split("-") for pair in (given.split(",") if isinstance(given, str) else given)]
    return [(source, target) for source, target in split]


def add_tags(dictionary: Dictionary, task: Dict[str, Any]) -> None:
    """Adds the tags of the languages to a dictionary, as the task does."""
    style, specs = task["lang_tok_style"], task["langtoks_specs"]
    augment_dictionary(dictionary, languages(task), style, specs, task.get("extra_data"))


def flags(task: Dict[str, Any]) -> Dict[str, List[str]]:
    """The task, its languages and tags as flags of ``fairseq-train``, to the words that follow them."""
    before, first = _tagged(task)
    tags = flags_of(Namespace(**{**task, "encoder_langtok": before, "decoder_langtok": bool(first)}), OF_TAGS)
    return {"--task": [TASK], "--langs": [",".join(languages(task))], **tags}


def _tagged(task: Dict[str, Any]) -> Tuple[Optional[str], Optional[str]]:
    """The language (``src``, ``tgt``) whose tag comes before a source, and before a translation; None: no tag."""
    usual = task.get("encoder_langtok"), "tgt" if task.get("decoder_langtok") else None
    before, first = (task.get("langtoks") or {}).get("main", usual)  # which fairseq completes in training
    return before, first


def direction(task: Dict[str, Any], source: Optional[str], target: Optional[str]) -> Direction:
    """The direction between these languages; of those that are None, the only one of the training that fits.

    Raises:
        CheckpointError: several fit or none, a language is not the model's, or fairseq alone translates with its tags.
    """
    langs = languages(task)
    if other := [lang for lang in (source, target) if lang not in (None, *langs)]:
        raise CheckpointError(f"{other[0]!a:.40} is none of the model's languages: {', '.join(langs)}")
    if source is None or target is None:
        fitting = [pair for pair in pairs(task) if source in (None, pair[0]) and target in (None, pair[1])]
        if len(fitting) != 1:
            raise CheckpointError(f"name --source-lang and --target-lang, of the model's {', '.join(langs)}")
        source, target = fitting[0]
    if task.get("lang_tok_replacing_bos_eos"):
        raise CheckpointError("--lang-tok-replacing-bos-eos: only fairseq-generate translates with such tags")
    before, first = _tagged(task)
    style = task["lang_tok_style"]
    source_tag = get_lang_tok(source if before.startswith("src") else target, style, before) if before else ""
    return Direction(source, target, source_tag, get_lang_tok(target, style, first) if first else "")
