"""Translates raw text with a run's model folder: stdin to stdout, line by line, with a progress bar on stderr.

::

    python -m fairseq_rope.tools.translate RUN < input > output

A model folder holds ``checkpoint.pt``, ``bpecodes``, the two dictionaries and ``prepare.json``, by which text is split
as in training (without that file: hyphens split, no vocabulary threshold); ``scripts/average.sh`` makes it.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from sacremoses import MosesPunctNormalizer
from subword_nmt.apply_bpe import read_vocabulary
from tqdm import tqdm

from ..model import RoFormerModel
from .average import CheckpointError, load_checkpoint
from .corpus import SPACES
from .score import detokenize

CHUNK = 200  # sentences


class Translator:
    """A trained model with the text processing of ``scripts/prepare.sh`` around it.

    Args:
        folder: the model folder.
        beam: hypotheses kept in the search.
        lenpen: exponent of the length in the score of a hypothesis.
        max_tokens: padded source tokens translated at once.

    Raises:
        CheckpointError: a file is missing or cannot be used.
    """

    def __init__(self, folder: Path, beam: int = 4, lenpen: float = 0.6, max_tokens: int = 4000) -> None:
        task = read_task(folder)
        source, target = task["source_lang"], task["target_lang"]
        if not source or not target:
            raise CheckpointError(f"{folder}: the model was trained without --source-lang and --target-lang")
        for name in ("bpecodes", f"dict.{source}.txt", f"dict.{target}.txt"):
            if not (folder / name).is_file():
                raise CheckpointError(f"{folder / name}: missing: scripts/average.sh makes a complete model folder")
        settings = read_preparation(folder)
        self.normalizer = MosesPunctNormalizer(source, post_remove_control_chars=True)
        self.hub = RoFormerModel.from_pretrained(
            str(folder),
            "checkpoint.pt",
            ".",
            tokenizer="moses",
            source_lang=source,  # for the tokenizer, whose default is English on both sides
            target_lang=target,
            moses_no_dash_splits=settings["hyphens"] == "kept",
            bpe="subword_nmt",
            max_tokens=max_tokens,
        )
        threshold = int(settings["vocabulary_threshold"])
        if threshold:
            with (folder / f"vocabulary.{source}").open(encoding="utf-8") as vocabulary:
                self.hub.bpe.bpe.vocab = read_vocabulary(vocabulary, threshold)
        self.hub.eval()
        if torch.cuda.is_available():
            self.hub.cuda()
        self.beam, self.lenpen, self.target = beam, lenpen, target

    def translate(self, sentences: Sequence[str]) -> List[str]:
        """Translates raw sentences; an empty one stays empty, control characters are removed.

        Raises:
            ValueError: a sentence is longer than the model accepts.
        """
        texts = [SPACES.sub(" ", sentence.replace("\n", " ")) for sentence in sentences]
        # with the end of the line, at which quotes and full stops change places in some languages
        cleaned = [self.normalizer.normalize(f"{text}\n") for text in texts]
        sources = {i: self.hub.encode(sentence) for i, sentence in enumerate(cleaned) if sentence.strip()}
        translations = [""] * len(sentences)
        longest = int(self.hub.max_positions[0])
        for i, source in sources.items():
            if source.numel() > longest:
                raise ValueError(f"sentence {i + 1} has more than {longest} tokens: split it")
        if sources:
            found = self.hub.generate(list(sources.values()), beam=self.beam, lenpen=self.lenpen)
            tokens = [self.hub.remove_bpe(self.hub.string(hypotheses[0]["tokens"])) for hypotheses in found]
            for i, translation in zip(sources, detokenize(tokens, self.target)):
                translations[i] = translation
        return translations


def read_task(folder: Path) -> Dict[str, Any]:
    task = (load_checkpoint(folder / "checkpoint.pt").get("cfg") or {}).get("task", {})
    return dict(task) if isinstance(task, dict) else vars(task)


def read_preparation(folder: Path) -> Dict[str, str]:
    """How the training text was split, by ``prepare.json``: ``hyphens`` and ``vocabulary_threshold``."""
    path = folder / "prepare.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: found.get(name, default) for name, default in (("hyphens", "split"), ("vocabulary_threshold", "0"))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="translate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="model folder of a run")
    parser.add_argument("--beam", type=int, default=4, help="beam size (default: 4)")
    parser.add_argument("--lenpen", type=float, default=0.6, help="length penalty (default: 0.6)")
    args = parser.parse_args()
    if args.beam < 1:
        sys.exit(f"error: --beam must be at least 1, not {args.beam}")
    logging.disable(logging.INFO)
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
        translator = Translator(args.folder, args.beam, args.lenpen)
    except CheckpointError as error:
        sys.exit(f"error: {error}")
    except UnicodeDecodeError as error:
        sys.exit(f"error: the input is not UTF-8 (byte {error.start}): convert it with iconv")
    lines = text.removesuffix("\n").split("\n") if text else []
    bar = tqdm(total=len(lines), unit=" sentences", desc="translate", disable=None if sys.stderr.isatty() else True)
    for start in range(0, len(lines), CHUNK):
        chunk = lines[start : start + CHUNK]
        try:
            for line in translator.translate(chunk):
                print(line, flush=True)
        except ValueError as error:
            sys.exit(f"error: in the sentences from line {start + 1} on, {error}")
        bar.update(len(chunk))
    bar.close()


if __name__ == "__main__":
    main()
