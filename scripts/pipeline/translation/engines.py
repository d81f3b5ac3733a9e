"""The engines that search for translations: fairseq, or CTranslate2 on an exported copy of the model.

Both translate tokens to tokens, as text, with beam search and ``score / length^lenpen``, ``</s>`` counted.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Sized, Tuple, Union

import torch

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import CHECKPOINT, overrides
from fairseq_rope.checkpoints.multilingual import Direction
from fairseq_rope.decoding.generator import FastSequenceGenerator
from fairseq_rope.decoding.task import FastTranslationTask
from fairseq_rope.export import exported
from fairseq_rope.packages import package
from fairseq_rope.translation import RoFormerModel

from ..command import LONGEST, say
from ..files import read_json
from ..provenance import cpu_info

TOKENS = 4000
"""Padded source tokens to translate at once."""

WORKER_TOKENS = 1000
"""Padded source tokens that a worker of CTranslate2 translates at once on a CPU; more were slower (two workers of one
thread each, int8: 752 words a second with 1,000, 491 with 4,000; 659 with one worker of two threads)."""

Found = Tuple[List[str], List[bool]]
"""Translations, and which of them are as long as the search allows, and may be cut."""


@dataclass(frozen=True)
class Search:
    """How to search."""

    beam: int = 4
    """Hypotheses kept."""
    lenpen: float = 0.6
    """Exponent of the length in the score of a hypothesis."""
    limit: int = LONGEST
    """Tokens of a translation before ``</s>``, at most."""
    separator: str = ""
    """The token between the segments of documents, which fairseq's search then keeps beside those of the source."""


class FairseqEngine:
    """fairseq's search.

    Args:
        folder: the model folder.
        direction: source and target, with the tags that every sentence gets.
    """

    def __init__(self, folder: Path, direction: Direction, search: Search) -> None:
        named = overrides(folder, direction)  # which the checkpoint may lack
        self.hub = RoFormerModel.from_pretrained(str(folder), CHECKPOINT, ".", max_tokens=TOKENS, **named)
        self.hub.task = FastTranslationTask(self.hub.cfg.task, self.hub.src_dict, self.hub.tgt_dict)
        words = (self.hub.src_dict, self.hub.tgt_dict)
        if search.separator and all(search.separator in side.indices for side in words):
            if FastSequenceGenerator.can_align(self.hub.models[0]):
                self.hub.task.separator = search.separator
            else:
                say("the search cannot align segments in this model: blocks that lose some are translated by segments")
        if direction.target_tag:
            self.hub.task.target_tag = self.hub.tgt_dict.index(direction.target_tag)
        self.hub.eval()
        if torch.cuda.is_available():
            self.hub.cuda()
        self.direction, self.options = direction, search
        self.longest = int(self.hub.max_positions[0]) - bool(direction.source_tag)
        """tokens of the longest source that the model accepts, ``</s>`` counted"""
        self.max_length = min(search.limit, int(self.hub.max_positions[1]) - 1)
        """tokens of the longest translation that the search makes, before ``</s>``"""

    def search(self, sources: Sequence[str]) -> Found:
        tokens, options = [self.hub.binarize(f"{self.direction.source_tag} {each}") for each in sources], self.options
        self.hub.cfg.dataset.max_tokens = max([TOKENS, *map(len, tokens)])  # fairseq refuses a longer source
        results = self.hub.generate(tokens, beam=options.beam, lenpen=options.lenpen, max_len_b=self.max_length)
        found = [hypotheses[0]["tokens"] for hypotheses in results]
        first = bool(self.direction.target_tag)
        return [self.hub.string(tokens[first:]) for tokens in found], _full(found, self.max_length)


class CTranslate2Engine:
    """CTranslate2's search on an export of the model folder; makes the export if there is none of this checkpoint.

    On a CPU it has a worker of one thread for each of PyTorch's threads, which share the weights.

    Args:
        folder, direction: as in :class:`FairseqEngine`.
        quantization: number format of the export; None: ``float32``.

    Raises:
        CheckpointError, ValueError: :func:`fairseq_rope.export.export` fails, or the export is damaged.
    """

    def __init__(self, folder: Path, direction: Direction, search: Search, quantization: Optional[str] = None) -> None:
        engine = package("ctranslate2")
        on_gpu = engine.get_cuda_device_count() > 0
        self.workers = 1 if on_gpu else torch.get_num_threads()
        model = exported(folder, quantization)
        config = read_json(model / "config.json", f"remove {model}")
        self.direction = direction
        self.longest = int(config["max_source_positions"]) - bool(direction.source_tag)
        try:
            self.translator = engine.Translator(str(model), device="auto", inter_threads=self.workers, intra_threads=1)
            self.translator.translate_batch([["a"]], max_decoding_length=1)  # on a GPU, this loads its libraries
        except RuntimeError as error:
            hide = ", or set CUDA_VISIBLE_DEVICES= to translate on the CPU" if on_gpu else ""
            raise ValueError(f"CTranslate2 cannot use {model} ({error}): remove it{hide}") from None
        if self.translator.device == "cpu" and saturates(quantization):
            say(f"this processor has no VNNI, without which {quantization} is less exact: compare BLEU without it")
        self.max_length = min(search.limit, int(config["max_target_positions"]) - 1)
        self.max_tokens = TOKENS if on_gpu else WORKER_TOKENS
        self.options = {**search_options(search.beam, search.lenpen, self.max_length), "batch_type": "tokens"}

    def search(self, sources: Sequence[str]) -> Found:
        tokens = [f"{self.direction.source_tag} {source}".split() for source in sources]
        size = tokens_at_once(tokens, self.workers, self.max_tokens)
        tags = self.direction.target_tag.split()
        prefix = [tags] * len(tokens) if tags else None
        results = self.translator.translate_batch(tokens, prefix, max_batch_size=size, **self.options)
        found = [result.hypotheses[0] for result in results]
        # without the last token: </s>, or the token that fairseq replaces by </s> at the limit
        texts = [" ".join(token for token in tokens[len(tags) : -1] if token != "<s>") for tokens in found]
        return texts, _full(found, self.max_length)


def _full(found: Sequence[Sized], max_length: int) -> List[bool]:
    return [len(tokens) > max_length for tokens in found]  # with </s>


def saturates(quantization: Optional[str]) -> bool:
    """Whether sums of integer products may leave their range: with AVX2 they are of 16 bits, with VNNI of 32."""
    instructions = cpu_info()
    return (quantization or "").startswith("int") and "avx2" in instructions and "vnni" not in instructions


Engine = Union[FairseqEngine, CTranslate2Engine]


def build_engine(
    name: str, folder: Path, direction: Direction, search: Search, quantization: Optional[str] = None
) -> Engine:
    """The engine of this name, ``fairseq`` or ``ctranslate2``. With ``auto``: for sentences on a CPU CTranslate2, the
    faster one, unless it cannot translate them; for documents fairseq, whose search keeps segments together.

    Raises:
        CheckpointError, ValueError: as the engines do.
    """
    automatic = name == "auto"
    missing = importlib.util.find_spec("ctranslate2") is None
    if automatic and (torch.cuda.is_available() or missing or search.separator):
        name = "fairseq"
    if name != "fairseq":
        try:
            return CTranslate2Engine(folder, direction, search, quantization)
        except (ValueError, OSError) as error:
            if not automatic or isinstance(error, CheckpointError):
                raise
            say(f"fairseq translates, because CTranslate2 cannot: {error}")
    return FairseqEngine(folder, direction, search)


def tokens_at_once(sources: Sequence[Sequence[str]], workers: int, most: int) -> int:
    """How many padded tokens a worker translates at once, so that all of them have something to do."""
    longest = max(map(len, sources))
    return max(longest, min(most, -(-longest * len(sources) // workers)))


def search_options(beam: int, lenpen: float, max_length: int) -> Dict[str, Any]:
    """The options of ``ctranslate2.Translator.translate_batch`` that give fairseq's search.

    Args:
        beam, lenpen: as in :class:`Search`.
        max_length: tokens of a translation before ``</s>``.
    """
    return dict(
        beam_size=beam,
        length_penalty=lenpen,
        return_end_token=True,  # also: count it
        max_decoding_length=max_length + 1,  # with </s>
        max_input_length=0,  # 0: none is cut
        suppress_sequences=[["<pad>"]],  # fairseq's search never chooses it
    )
