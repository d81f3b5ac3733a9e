"""The word pieces of BERT and RoFormer: ``vocab.txt``, and how text is split into them (fairseq's ``--bpe wordpiece``).

``tokenizer_config.json`` beside the vocabulary has the settings, under Hugging Face's names: ``do_lower_case``,
``strip_accents``, ``tokenize_chinese_chars``, and ``tokenizer_class``. RoFormer's tokeniser first cuts text into
Chinese words, and keeps those that are in the vocabulary.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from .packages import package

VOCABULARY, SETTINGS = "vocab.txt", "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
"""What transformers 5 writes in place of ``vocab.txt``."""

SPECIAL = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
"""Special symbols of BERT, to fairseq's; all but the last come first in every dictionary, in this order."""

CONTINUATION = "##"
"""What the pieces inside a word begin with."""

SWITCHES: Dict[str, Any] = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
CHINESE_WORDS = ("RoFormerTokenizer", "RoFormerTokenizerFast")
SPLITTERS = ("BertTokenizer", "BertTokenizerFast", *CHINESE_WORDS)
LONGEST_WORD = 100  # characters; longer ones are unknown in BERT
CHINESE = "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3000-\u303f\uff00-\uffef]"


def read_vocabulary(path: Path) -> List[str]:
    """The word pieces, one a line, in the order of their numbers; without the file, those of ``tokenizer.json``.

    Raises:
        ValueError: the file is missing or damaged, has a piece twice, or lacks a special symbol.
    """
    if path.is_file():
        pieces = _lines(path)
    elif (path := path.with_name(TOKENIZER)).is_file():
        pieces = _tokenizers_pieces(path)
    else:
        raise ValueError(f"{path.with_name(VOCABULARY)}: missing: it has the word pieces of the model, one a line")
    numbers: Dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if piece.encode().split() != [piece.encode()]:  # BERT's Chinese vocabulary has the piece U+2028
            raise ValueError(f"{path}, line {number}: {piece!a:.60} is not one piece without spaces: fetch it again")
        if piece in SPECIAL.values():
            raise ValueError(f"{path}, line {number}: {piece} is a special symbol of fairseq: rename it in all files")
        if piece in numbers:
            raise ValueError(
                f"{path}, line {number}: {piece!a:.60} is in line {numbers[piece]} already: fetch it again"
            )
        numbers[piece] = number
    missing = [symbol for symbol in SPECIAL if symbol not in numbers]
    if missing:
        raise ValueError(
            f"{path}: there is no {missing[0]}: a vocabulary of BERT's word pieces has {', '.join(SPECIAL)}"
        )
    return pieces


def _lines(path: Path) -> List[str]:
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason}): fetch it again") from None
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    return lines[:-1] if lines[-1] == "" else lines


def _tokenizers_pieces(path: Path) -> List[str]:
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
        if sorted(numbers.values()) != list(range(len(numbers))):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(f"{path}: damaged, or no tokenizer of word pieces: give the model's {VOCABULARY}") from None
    return sorted(numbers, key=lambda piece: numbers[piece])


def read_settings(folder: Path, tokenizer_class: Any = "BertTokenizer") -> Dict[str, Any]:
    """The settings in ``tokenizer_config.json`` that matter here; the defaults of BERT where there is none.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / SETTINGS
    try:
        given = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise ValueError(f"{path}: not JSON: fetch it again, or remove it") from None
    settings = {name: given.get(name, default) for name, default in SWITCHES.items()}
    return {**settings, "tokenizer_class": given.get("tokenizer_class") or tokenizer_class}


@dataclass
class WordPieceConfig(FairseqDataclass):
    wordpiece_vocab: str = field(
        default=VOCABULARY, metadata={"help": f"the word pieces, one a line; {SETTINGS} beside it has the settings"}
    )


@register_bpe("wordpiece", dataclass=WordPieceConfig)
class WordPiece:
    """Splits text as the tokenisers of BERT and RoFormer do, by the packages ``tokenizers`` and ``rjieba``.

    Raises:
        ValueError: a package is missing, or a file cannot be used.
    """

    def __init__(self, cfg: Any) -> None:
        path = Path(cfg.wordpiece_vocab)
        pieces = read_vocabulary(path)
        settings = read_settings(path.parent)
        self.file, self.splitter = path.parent / SETTINGS, settings["tokenizer_class"]
        tokenizers = package("tokenizers")
        self.vocabulary = {piece: number for number, piece in enumerate(pieces)}
        self._model = tokenizers.models.WordPiece(
            self.vocabulary, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD
        )
        self._words = tokenizers.pre_tokenizers.BertPreTokenizer()
        self._jieba = package("rjieba") if settings["tokenizer_class"] in CHINESE_WORDS else None
        chars = bool(settings["tokenize_chinese_chars"])
        lower, accents = settings["do_lower_case"], settings["strip_accents"]
        options = dict(clean_text=True, strip_accents=accents, lowercase=bool(lower))
        self._normalizer = tokenizers.normalizers.BertNormalizer(
            handle_chinese_chars=chars and self._jieba is None, **options
        )
        self._characters = tokenizers.normalizers.BertNormalizer(
            handle_chinese_chars=chars, clean_text=False, strip_accents=False, lowercase=False
        )

    def encode(self, x: str) -> str:
        """``x`` as word pieces with spaces between them; unknown ones are ``<unk>``.

        Raises:
            ValueError: the model has another tokenizer.
        """
        if self.splitter not in SPLITTERS:
            raise ValueError(
                f"{self.file}: {self.splitter!a:.60} splits text in its own way: split it with that tokenizer, or name "
                f"{SPLITTERS[0]} there if it splits alike"
            )
        text = self._normalizer.normalize_str(x)
        return " ".join(piece for word in self._cut(text) for piece in self._pieces(word))

    def _cut(self, text: str) -> Iterator[str]:
        """Words; of Chinese, as RoFormer's authors do it: those in the vocabulary, and single characters."""
        for part in [text] if self._jieba is None else self._jieba.cut(text, False):
            if self._jieba is not None and part in self.vocabulary:
                yield part
            else:
                yield from (word for word, _ in self._words.pre_tokenize_str(self._characters.normalize_str(part)))

    def _pieces(self, word: str) -> List[str]:
        return [SPECIAL.get(token.value, token.value) for token in self._model.tokenize(word)]

    def decode(self, x: str) -> str:
        """Word pieces as text, in which there are no spaces between Chinese characters."""
        return re.sub(f"(?<={CHINESE}) (?={CHINESE})", "", x.replace(f" {CONTINUATION}", ""))

    def is_beginning_of_word(self, x: str) -> bool:
        return not x.startswith(CONTINUATION)
