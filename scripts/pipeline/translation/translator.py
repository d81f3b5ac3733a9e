"""A trained model with the text processing of ``scripts/prepare.sh`` around it."""

from pathlib import Path
from typing import List, Optional, Sequence

from fairseq_rope.checkpoints.model_folder import REMEDY, read_dictionary, read_languages, types

from ..command import Failure
from ..prepared import read_prepared
from ..processing.kinds import text_processing
from .engines import build_engine


class Translator:
    """A trained model with the text processing of ``scripts/prepare.sh`` around it.

    Args:
        folder: the model folder.
        beam: hypotheses kept in the search.
        lenpen: exponent of the length in the score of a hypothesis.
        max_tokens: padded source tokens to translate at once.
        engine: ``fairseq``, ``ctranslate2``, or ``auto``: see :func:`.engines.build_engine`.
        quantization: number format of CTranslate2's copy of the model; None: ``float32``.

    Raises:
        CheckpointError: a file is missing or cannot be used.
        Failure: a file of the text processing is missing or damaged.
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
        prepared = read_prepared(folder, REMEDY)
        if prepared.is_text:
            raise Failure(f"{folder} has a language model, which does not translate: give a model that was trained to")
        source, target = read_languages(folder)
        prepared.check([file for file in folder.iterdir() if file.name in prepared.sha256], REMEDY)
        self.processing = text_processing(folder, prepared, source, target)
        self.processing.load(REMEDY, types(read_dictionary(folder / f"dict.{source}.txt", REMEDY)))
        self.engine = build_engine(engine, folder, (source, target), beam, lenpen, max_tokens, quantization)
        self.cut = 0
        """translations of the last call that are as long as the search allows, and may be cut"""

    def translate(self, sentences: Sequence[str]) -> List[str]:
        """Translates raw sentences; an empty sentence stays empty.

        Raises:
            ValueError: a sentence is longer than the model accepts.
        """
        sources = {i: source for i, source in enumerate(self.processing.split(sentences)) if source}
        translations = [""] * len(sentences)
        longest = self.engine.longest
        for i, source in sources.items():
            if len(source.split()) >= longest:  # </s> comes to them
                raise ValueError(f"sentence {i + 1} has more than {longest} tokens: split it")
        self.cut = 0
        if sources:
            hypotheses, self.cut = self.engine.search(list(sources.values()))
            for i, translation in zip(sources, self.processing.join(hypotheses)):
                translations[i] = translation
        return translations
