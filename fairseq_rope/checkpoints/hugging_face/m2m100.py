"""Reads a Hugging Face folder of M2M100 or NLLB into a model folder of this plugin.

The model is fairseq's transformer with norms before the layers and fairseq's sinusoids, trained in many directions: the
tag of the source's language comes before the source, that of the target's before the translation. NLLB's tag
``eng_Latn`` becomes ``__eng_Latn__``, as fairseq has it. The logits are equal to rounding.
"""

import re
from itertools import count
from pathlib import Path
from typing import Dict, List, Tuple

from fairseq.data import Dictionary

from ...options import SIDES
from ...packages import package
from ..files import CheckpointError
from ..model_folder import DICTIONARY, check_files
from ..multilingual import TASK
from . import transformer
from .folders import CONFIG, TOKENIZER, Values, read_object
from .weights import Taken, read_weights

MODEL_TYPE = "m2m_100"
PIECES, WORDS = "sentencepiece.bpe.model", "vocab.json"
SETTINGS, SPECIAL = "tokenizer_config.json", "special_tokens_map.json"

LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
    "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
    "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
"""Of M2M100: their tags follow its vocabulary in this order, and the folder does not say so."""

NLLB_LANGUAGE = re.compile("[a-z]{3}_[A-Z][a-z]{3}")


def import_folder(folder: Path, out: Path) -> str:
    """Makes the model folder ``out``; returns what it became.

    Raises:
        CheckpointError: a file is missing or damaged, files do not fit together, the model does what ours do not, or
            ``out`` exists.
        OSError: ``out`` cannot be written.
    """
    values = Values(folder)
    check_files(folder, PIECES, SETTINGS, remedy=TOKENIZER)
    if values.given.get("decoder_start_token_id") != values.given.get("eos_token_id"):
        raise values.error("decoder_start_token_id", "must be eos_token_id")
    words, langs, order = _dictionary(_symbols(folder), values)
    flags = ["--task", TASK, "--langs", ",".join(langs), "--encoder-langtok", "src"]
    norms = [f"--{side}-normalize-before" for side in SIDES]
    cfg = transformer.configuration(values, [*flags, "--decoder-langtok", *norms])
    cfg.task.lang_pairs = []  # not known
    taken = Taken(read_weights(folder), str(folder), f"give the folder of its model with the {CONFIG} of its weights")
    model = transformer.take(taken, cfg.model, len(order), order)
    for side in SIDES:
        taken.left.pop(f"model.{side}.embed_positions.weights", None)  # of old files; the library computes them, too
    taken.check_none_left()
    pieces = len(_pieces(folder / PIECES)) + 3
    prepared = {"subwords": "sentencepiece", "pieces": str(pieces), "sentencepiece": {"pieces": pieces}}
    prepared["languages"] = langs
    transformer.make_run(out, values, [PIECES], {DICTIONARY: words}, prepared, cfg, model)
    return f"{folder} as {transformer.ARCH}, {len(langs)} languages: {', '.join(langs[:3])}, ..."


def _symbols(folder: Path) -> Dict[int, str]:
    """The tokens by their numbers, the tags of languages as fairseq has them."""
    settings = read_object(folder / SETTINGS)
    if (folder / WORDS).is_file():
        if settings.get("language_codes", "m2m100") != "m2m100":
            raise CheckpointError(f"{folder / SETTINGS}: only the language_codes m2m100 can be converted")
        found = {number: word for word, number in read_object(folder / WORDS).items()}
        return {**found, **{len(found) + i: f"__{lang}__" for i, lang in enumerate(LANGUAGES)}}
    if settings.get("legacy_behaviour"):
        raise CheckpointError(f"{folder / SETTINGS}: legacy_behaviour must be false: the tag comes before the source")
    found = dict(enumerate(["<s>", "<pad>", "</s>", "<unk>", *_pieces(folder / PIECES)]))
    added = settings.get("added_tokens_decoder")
    if isinstance(added, dict):
        found.update({int(number): token["content"] for number, token in added.items()})
    else:
        special = read_object(folder / SPECIAL).get("additional_special_tokens") or []
        found.update(enumerate(special, len(found)))
    return {n: f"__{word}__" if NLLB_LANGUAGE.fullmatch(word) else word for n, word in found.items()}


def _pieces(path: Path) -> List[str]:
    """The pieces of a model of SentencePiece, without its three special ones."""
    sentencepiece = package("sentencepiece")
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except RuntimeError as error:
        raise CheckpointError(f"{path} is damaged: no model of SentencePiece: fetch it again") from error
    return [model.id_to_piece(number) for number in range(3, model.get_piece_size())]


def _dictionary(symbols: Dict[int, str], values: Values) -> Tuple[Dictionary, List[str], List[int]]:
    """fairseq's dictionary without the tags, the languages, and for each row here, the tags last, the one there."""
    dictionary, size = Dictionary(), values.whole("vocab_size", 0)
    tags = {number: word for number, word in symbols.items() if re.fullmatch("__.+__", word)}
    own = [symbols.get(number) for number in range(dictionary.nspecial)]
    if own != dictionary.symbols or not tags or not set(symbols) <= set(range(size)):
        raise values.error("vocab_size", f"does not fit the tokenizer, which has {len(symbols)} tokens")
    order = list(range(dictionary.nspecial))
    names = (f"madeupword{i:04d}" for i in count())  # fairseq's, of rows without a token
    for number in range(dictionary.nspecial, size):
        if number not in tags:
            word = symbols.get(number) or next(names)
            if word in dictionary:
                raise values.error("vocab_size", f"has a place for {word!a:.40}, which is there twice")
            dictionary.add_symbol(word)
            order.append(number)
    order += sorted(tags)
    return dictionary, [tags[number][2:-2] for number in sorted(tags)], order
