"""Moses tokens, split by subword-nmt.

The tokens are those of ``sacremoses normalize -c tokenize -a``, and the codes and vocabularies those of ``subword-nmt
learn-joint-bpe-and-vocab``, byte by byte.
"""

import contextlib
import io
import re
import sys
import unicodedata
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

from ..command import Failure, say, whole_number
from ..files import write_json, write_text
from ..languages import base, has_spaces
from .base import Text
from .blocks import over_blocks
from .detokenize import HYPHEN, detokenize
from .preparation import Preparation, Split

MARKER = "@@"
"""The end of a subword that another one follows."""

LONGEST = 6
"""Characters of a word, on average, in languages without spaces. Their segmented text has words of 2 to 5 characters;
text that is not segmented has 10 and more between two spaces."""

LOOKED_AT = 10000
"""Lines of a training set that tell whether it can be split."""

RARE = 1000
"""One in so many characters may be a mark or an apostrophe that is split off."""

APOSTROPHE = re.compile(r"(?<=[^\W\d_])['\u2019](?=[^\W\d_])")
WITH_RULES = ("de", "en", "fr", "it")
"""Languages whose apostrophes inside words come back: those with rules in Moses, and German by ours."""


class Tokenizer:
    """Normalises punctuation, removes control characters, and splits lines into Moses tokens.

    Args:
        lang: the language of the text.
        split_hyphens: whether to split words at hyphens.
    """

    def __init__(self, lang: str, split_hyphens: bool) -> None:
        self.normalizer = MosesPunctNormalizer(base(lang), post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(base(lang))
        self.options = dict(aggressive_dash_splits=split_hyphens, return_str=True, escape=True)

    def __call__(self, lines: Sequence[str]) -> List[str]:
        # with the end of the line: there, quotes and full stops change places in some languages
        return [self.tokenizer.tokenize(self.normalizer.normalize(f"{line}\n"), **self.options) for line in lines]


def check(lang: str, lines: Sequence[str]) -> None:
    """Raises Failure if no spaces separate words; says if Moses splits marks or apostrophes from their letters."""
    words, characters = sum(len(line.split()) for line in lines), "".join(lines)
    size = len("".join(characters.split()))
    if not has_spaces(lang) and size > LONGEST * words:
        raise Failure(
            f"train.{lang}: no spaces separate its words ({size / words:.0f} characters between two spaces), and Moses "
            "and BPE need them: give --subwords sentencepiece, or text that is segmented into words"
        )
    marks = Counter(character for character in characters if unicodedata.category(character) in ("Mn", "Mc"))
    moses = MosesTokenizer(lang)
    torn = sum(count for mark, count in marks.items() if len(moses.tokenize(f"a{mark}a", escape=False)) > 1)
    if torn * RARE > len(characters):
        say(
            f"train.{lang}: Moses splits {torn:,} combining marks from their letters, which lowers BLEU: compose them "
            "(Unicode's NFC), or give --subwords sentencepiece"
        )
    torn = sum(len(APOSTROPHE.findall(line)) for line in lines) if base(lang) not in WITH_RULES else 0
    if torn * RARE > len(characters):
        say(
            f"train.{lang}: Moses splits {torn:,} apostrophes from their words, which lowers BLEU: give --subwords "
            "sentencepiece"
        )


class MosesBPE(Text):
    """Normalises punctuation, removes control characters, tokenises, and applies joint BPE; joins and detokenises."""

    options = {
        "merges": dict(type=whole_number(1), metavar="N", help="BPE merges (default: by the size of the training set)"),
        "vocabulary-threshold": dict(
            type=whole_number(0),
            default=0,
            metavar="N",
            help="split subwords that are rarer than N on their side of the training set (default: 0, none)",
        ),
        "keep-hyphens": dict(action="store_true", help="do not split words at hyphens"),
    }
    ratio = "1.5"
    tokens = "bpe"
    codes = "bpecodes"
    post_process = "subword_nmt"

    def apply(self, lines: Sequence[str]) -> List[str]:
        return _apply(self.learned, self.tokenize(lines))

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text([f"{line} ".replace(f"{MARKER} ", "").rstrip() for line in tokens])

    def text(self, printed: Sequence[str]) -> List[str]:
        return detokenize(printed, self.target)

    def prepare(self, preparation: Preparation) -> Dict[str, str]:
        args, folder = preparation.args, preparation.folder
        threshold = self.threshold = args.vocabulary_threshold

        def tokenizer(lang: str) -> Split:
            with (folder / f"raw/train.{lang}").open(encoding="utf-8", newline="\n") as lines:
                check(lang, list(islice(lines, LOOKED_AT)))
            return Tokenizer(lang, not args.keep_hyphens)

        preparation.setting("control characters removed")
        if args.keep_hyphens:
            preparation.setting("hyphens kept")
        preparation.split("tokenize", "raw", "tok", tokenizer)
        merges = preparation.size(args.merges, "--merges")
        preparation.setting(f"merges {merges}")
        if threshold:
            preparation.setting(f"vocabulary threshold {threshold}")
        codes, *vocabularies = self.files(preparation.langs)

        def work() -> None:
            counts = learn(
                preparation.train("tok"), merges, folder / codes, args.workers, [folder / name for name in vocabularies]
            )
            write_json(folder / "bpe.json", counts)

        def way(lang: str) -> Split:
            bpe = self.read(folder / codes, preparation.again)
            keep_frequent(bpe, folder / f"vocabulary.{lang}", threshold)
            return partial(_apply, bpe)

        preparation.learn("learn-bpe", ["bpe.json", codes, *vocabularies], work)
        preparation.split("apply-bpe", "tok", self.tokens, way)
        hyphens = "kept" if args.keep_hyphens else "split"
        return {"merges": str(merges), "hyphens": hyphens, "vocabulary_threshold": str(threshold)}

    @classmethod
    def options_in(cls, info: Mapping[str, Any]) -> Dict[str, Any]:
        hyphens, threshold = info.get("hyphens") == "kept", int(info.get("vocabulary_threshold", 0))
        return {"merges": info.get("merges"), "keep_hyphens": hyphens, "vocabulary_threshold": threshold}

    @staticmethod
    def found_in(dictionaries: Sequence[Mapping[str, int]], codes: Any) -> Dict[str, str]:
        """Whether words were split at hyphens: then a dictionary has Moses' sign for one, split by the codes."""
        sign = set(codes.segment_tokens([HYPHEN]) if codes else [HYPHEN])
        split = any(sign <= dictionary.keys() for dictionary in dictionaries)
        return {"hyphens": "split" if split else "kept"}

    def files(self, langs: Sequence[str]) -> List[str]:
        return [self.codes, *(f"vocabulary.{lang}" for lang in langs if self.threshold)]

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        self.tokenize = Tokenizer(self.source, self.prepared.hyphens == "split")
        super().load(remedy, types)
        if threshold := self.prepared.vocabulary_threshold:
            keep_frequent(self.learned, self.folder / f"vocabulary.{self.source}", threshold)

    @staticmethod
    def read(path: Path, remedy: str) -> Any:
        """subword-nmt with these codes."""
        try:
            with contextlib.redirect_stderr(io.StringIO()), path.open(encoding="utf-8") as codes:
                return BPE(codes)  # the library prints the reason and ends the process
        except (SystemExit, ValueError):
            raise Failure(f"{path} is damaged: not two subwords a line, in UTF-8: {remedy}") from None

    @staticmethod
    def makes(codes: Any, token: str) -> bool:
        text = token.removesuffix(MARKER)
        return len(text) < 2 or not codes.bpe_codes_reverse.keys().isdisjoint((text, f"{text}</w>"))


def _apply(bpe: BPE, lines: Sequence[str]) -> List[str]:
    """The subwords of lines of tokens."""
    return [bpe.process_line(line) for line in lines]


def _count(lines: Sequence[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split(" ") if word)


def keep_frequent(bpe: BPE, vocabulary: Path, threshold: int) -> None:
    """Lets ``bpe`` split subwords again that are rarer than ``threshold`` in a vocabulary; 0: none."""
    if threshold:
        with vocabulary.open(encoding="utf-8") as counts:
            bpe.vocab = read_vocabulary(counts, threshold)


def learn(
    paths: Sequence[Path], merges: int, out: Path, workers: int, vocabularies: Sequence[Path] = ()
) -> Dict[str, Any]:
    """Writes joint codes to ``out``; returns the tokens and types of each file, and the number of merges.

    Args:
        vocabularies: none; or for each of ``paths`` a file to write its subwords to, with their counts, the most
            frequent first, as ``subword-nmt apply-bpe --vocabulary`` reads them.
    """
    sides: List[Counter[str]] = []
    for path in paths:
        sides.append(Counter())
        for counts in over_blocks(_count, path, workers, f"count {path.name}"):
            sides[-1].update(counts)
    words: Counter[str] = sum(sides, Counter())
    if max(map(len, words), default=0) < 2:
        raise Failure("no word has two characters, and BPE merges those of a word: give --subwords sentencepiece")
    codes = io.StringIO()
    with contextlib.redirect_stderr(sys.stderr if sys.stderr.isatty() else io.StringIO()):  # its bar
        learn_bpe([f"{word} {count}" for word, count in words.items()], codes, merges, is_dict=True)
    written = codes.getvalue()
    write_text(out, written)
    for counts, path in zip(sides, vocabularies):
        bpe, subwords = BPE(io.StringIO(written)), Counter[str]()
        for word, count in counts.items():  # each word once: that command applies the codes to the whole text
            for subword in bpe.segment_tokens([word]):
                subwords[subword] += count
        write_text(path, "".join(f"{subword} {count}\n" for subword, count in subwords.most_common()))
    sizes = {path.name: {"tokens": sum(counts.values()), "types": len(counts)} for path, counts in zip(paths, sides)}
    return {"words": sizes, "types": len(words), "merges": written.count("\n") - 1}  # without the version
