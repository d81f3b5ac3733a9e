"""Moses tokens, split by subword-nmt."""

import contextlib
import io
from pathlib import Path
from typing import Any, List, Sequence

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE, read_vocabulary

from ..command import Failure
from ..languages import base
from ..prepared import MODELS
from .base import Processing, one_line
from .detokenize import detokenize

MARKER = "@@"
"""The end of a subword that another one follows."""


class MosesBPE(Processing):
    """Normalises punctuation, removes control characters, tokenises, and applies BPE; joins and detokenises."""

    post_process = "subword_nmt"

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

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        lang = base(self.source)
        self.normalizer = MosesPunctNormalizer(lang, post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(lang)
        self.bpe = self.check_codes(self._file(MODELS["bpe"], remedy), types, remedy)
        threshold = self.prepared.vocabulary_threshold
        if threshold:
            with self._file(f"vocabulary.{self.source}", remedy).open(encoding="utf-8") as vocabulary:
                self.bpe.vocab = read_vocabulary(vocabulary, threshold)

    def split(self, sentences: Sequence[str]) -> List[str]:
        return [self._split(sentence) for sentence in sentences]

    def _split(self, sentence: str) -> str:
        # with the end of the line: there, quotes and full stops change places in some languages
        line = self.normalizer.normalize(f"{one_line(sentence)}\n")
        split_hyphens = not self.prepared.hyphens_kept
        tokens = self.tokenizer.tokenize(line, aggressive_dash_splits=split_hyphens, return_str=True, escape=True)
        return str(self.bpe.process_line(tokens))

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text([f"{line} ".replace(f"{MARKER} ", "").rstrip() for line in tokens])

    def text(self, printed: Sequence[str]) -> List[str]:
        return detokenize(printed, self.target)
