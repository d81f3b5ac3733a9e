"""A trained model with the text processing of ``scripts/prepare.sh`` around it."""

import argparse
import contextlib
import io
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

from fairseq.data import encoders
from sacremoses import MosesPunctNormalizer
from subword_nmt.apply_bpe import read_vocabulary

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import REMEDY, check_files, read_languages, read_preparation

from ..corpus.text import SPACES
from ..scoring.detokenize import detokenize
from .engines import CTranslate2Engine, FairseqEngine


class Translator:
    """A trained model with the text processing of ``scripts/prepare.sh`` around it.

    Args:
        folder: the model folder.
        beam: hypotheses kept in the search.
        lenpen: exponent of the length in the score of a hypothesis.
        max_tokens: padded source tokens to translate at once.
        engine: ``fairseq`` or ``ctranslate2``.
        quantization: number format of CTranslate2's copy of the model; None: ``float32``.

    Raises:
        CheckpointError: a file is missing or cannot be used.
        ValueError: CTranslate2 cannot be used with this model.
    """

    def __init__(
        self,
        folder: Path,
        beam: int = 4,
        lenpen: float = 0.6,
        max_tokens: int = 4000,
        engine: str = "fairseq",
        quantization: Optional[str] = None,
    ) -> None:
        source, self.target = read_languages(folder)
        check_files(folder, "bpecodes")
        preparation = read_preparation(folder)
        preparation.check(file for file in folder.iterdir() if file.name in preparation.sha256)
        self.normalizer = MosesPunctNormalizer(source, post_remove_control_chars=True)
        moses = argparse.Namespace(
            tokenizer="moses",
            source_lang=source,
            target_lang=self.target,
            moses_no_dash_splits=preparation.hyphens_kept,
        )
        self.tokenizer = encoders.build_tokenizer(moses)
        self.bpe = _read_codes(folder / "bpecodes")
        if preparation.vocabulary_threshold:
            check_files(folder, f"vocabulary.{source}")
            with (folder / f"vocabulary.{source}").open(encoding="utf-8") as vocabulary:
                self.bpe.bpe.vocab = read_vocabulary(vocabulary, preparation.vocabulary_threshold)
        self.engine: Union[FairseqEngine, CTranslate2Engine]
        if engine == "ctranslate2":
            self.engine = CTranslate2Engine(folder, beam, lenpen, max_tokens, quantization)
        else:
            self.engine = FairseqEngine(folder, beam, lenpen, max_tokens)

    def split(self, sentence: str) -> str:
        """A normalised sentence as BPE tokens."""
        return str(self.bpe.encode(self.tokenizer.encode(sentence)))

    def translate(self, sentences: Sequence[str]) -> List[str]:
        """Translates raw sentences, without their control characters; an empty sentence stays empty.

        Raises:
            ValueError: a sentence is longer than the model accepts.
        """
        texts = [SPACES.sub(" ", sentence.replace("\n", " ")) for sentence in sentences]
        # with the end of the line: there, quotes and full stops change places in some languages
        cleaned = [self.normalizer.normalize(f"{text}\n") for text in texts]
        sources = {i: self.split(sentence) for i, sentence in enumerate(cleaned) if sentence.strip()}
        translations = [""] * len(sentences)
        longest = self.engine.longest
        for i, source in sources.items():
            if len(source.split()) >= longest:  # </s> comes to them
                raise ValueError(f"sentence {i + 1} has more than {longest} tokens: split it")
        if sources:
            tokens = [self.bpe.decode(hypothesis) for hypothesis in self.engine.search(list(sources.values()))]
            for i, translation in zip(sources, detokenize(tokens, self.target)):
                translations[i] = translation
        return translations


def _read_codes(path: Path) -> Any:
    """fairseq's subword-nmt with these codes.

    Raises:
        CheckpointError: they are damaged.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the library prints the reason and ends the process
            return encoders.build_bpe(argparse.Namespace(bpe="subword_nmt", bpe_codes=str(path)))
    except (SystemExit, ValueError):
        raise CheckpointError(f"{path} is damaged: not two subwords a line, in UTF-8: {REMEDY}") from None
