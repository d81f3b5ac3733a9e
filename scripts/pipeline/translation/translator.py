"""A trained model with the text processing of ``scripts/prepare.sh`` around it."""

from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from fairseq_rope.checkpoints.model_folder import (
    CHECKPOINT,
    REMEDY,
    dictionary_path,
    read_dictionary,
    read_direction,
    types,
)

from ..command import LONGEST, Failure, say
from ..prepared import read_prepared
from ..text import text_processing
from ..text.segments import SEPARATOR, block_tokens, join_segments, packed, split_segments
from .engines import Search, build_engine

USUAL = Search()


class Translator:
    """A trained model with the text processing of ``scripts/prepare.sh`` around it.

    Args:
        folder: the model folder.
        search: how to search.
        engine: ``fairseq``, ``ctranslate2``, or ``auto``: see :func:`.engines.build_engine`.
        quantization: number format of CTranslate2's copy of the model; None: ``float32``.
        documents: whether to translate documents, by :meth:`search_blocks`, with a model that was trained on some.
        source, target: languages of a model of several; None: as it was trained, if that is clear.

    Raises:
        CheckpointError: a file is missing or cannot be used.
        ValueError: CTranslate2 cannot be used with this model.
    """

    def __init__(
        self,
        folder: Path,
        search: Search = USUAL,
        engine: str = "fairseq",
        quantization: Optional[str] = None,
        documents: bool = False,
        source: Optional[str] = None,
        target: Optional[str] = None,
    ) -> None:
        prepared = read_prepared(folder, REMEDY)
        if prepared.is_text:
            raise Failure(f"{folder} has a language model, which does not translate: give a model that was trained to")
        direction = read_direction(folder, CHECKPOINT, source, target)
        prepared.check_folder(folder, REMEDY)
        self.processing = text_processing(folder, prepared, direction.source, direction.target)
        dictionary = read_dictionary(dictionary_path(folder, direction.source), REMEDY)
        self.processing.load(REMEDY, types(dictionary))
        self.block_tokens = block_tokens(folder, prepared)
        """of the longest training block; 0: the model was trained on sentences"""
        if documents and not self.block_tokens:
            raise Failure(f"{folder} was trained on sentences: leave out --documents, or train on documents")
        if documents:
            search = replace(search, limit=2 * self.block_tokens + LONGEST, separator=SEPARATOR)
        self.engine = build_engine(engine, folder, direction, search, quantization)
        self.cut = 0
        """translations of the last search that are as long as the search allows, and may be cut"""

    def split(self, sentences: Sequence[str], first: int = 1, cut: bool = False) -> List[str]:
        """The tokens of raw sentences, for :meth:`search`.

        Args:
            first: number of the first one, for messages.
            cut: whether to keep the beginning of a sentence that is longer than the model accepts, and say so.
        """
        sources, most = self.processing.split(sentences), self.engine.longest - 1  # </s> comes to them
        for i, tokens in enumerate(source.split() for source in sources):
            if len(tokens) > most:
                problem = f"line {first + i}: {len(tokens):,} tokens, and the model takes {most:,} at most"
                if not cut:
                    raise Failure(f"{problem}: split it, or give --cut")
                say(f"{problem}: its beginning is translated")
                sources[i] = " ".join(tokens[:most])
        return sources

    def search(self, sources: Sequence[str]) -> List[str]:
        """Translations of the tokens of sentences; that of an empty sentence is empty."""
        given = [source for source in sources if source]
        hypotheses, full = self.engine.search(given) if given else ([], [])
        self.cut = sum(full)
        texts = iter(self.processing.join(hypotheses))
        return [next(texts) if source else "" for source in sources]

    def blocks(self, sources: Sequence[str]) -> List[List[int]]:
        """The numbers of the lines that make each block of a text; empty lines, which end documents, are in none."""
        found: List[List[int]] = []
        most = min(self.block_tokens, self.engine.longest - 1)  # </s> comes to them
        for filled, lines in groupby(range(len(sources)), key=lambda i: bool(sources[i])):
            if filled:
                found += map(list, packed(list(lines), most, lambda i: len(sources[i].split())))
        return found

    def search_blocks(self, blocks: Sequence[Sequence[str]]) -> Tuple[List[List[str]], int]:
        """Translates blocks, each in one piece, or segment by segment if its translation is cut, has another number of
        them, or an empty one.

        Args:
            blocks: the tokens of the segments of each.

        Returns:
            Their translations, and the number of blocks that were translated segment by segment.
        """
        found, full = self.engine.search([join_segments(block) for block in blocks])
        split = [split_segments(tokens) for tokens in found]
        is_cut = [each and len(block) > 1 for each, block in zip(full, blocks)]  # and may be whole by segments
        wrong = [i for i, block in enumerate(blocks) if is_cut[i] or len(split[i]) != len(block) or not all(split[i])]
        self.cut = sum(full) - sum(full[i] for i in wrong)
        if alone := [segment for i in wrong for segment in blocks[i]]:
            again, full = self.engine.search(alone)
            self.cut += sum(full)
            segments = iter(" ".join(split_segments(tokens)) for tokens in again)
            for i in wrong:
                split[i] = list(islice(segments, len(blocks[i])))
        texts = iter(self.processing.join([segment for block in split for segment in block]))
        return [list(islice(texts, len(block))) for block in split], len(wrong)
