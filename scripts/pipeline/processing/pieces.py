"""SentencePiece: subwords of raw text in any script, with or without spaces between words.

As a command, it splits lines, from stdin to stdout: ``python scripts/run.py pipeline.processing.pieces MODEL``.
"""

import sys
from pathlib import Path
from typing import Any, List, Sequence

from ..command import Failure, run
from ..prepared import MODELS
from .base import Processing, one_line
from .tokens import known

MODEL = MODELS["sentencepiece"]

SPACE = "\u2581"
"""Stands for a space inside a piece."""

CHUNK = 1000  # lines


class SentencePiece(Processing):
    """Splits raw sentences into pieces, which hold their spaces; joins pieces."""

    figure = "on the pieces of SentencePiece"

    @staticmethod
    def read(path: Path, remedy: str) -> Any:
        """SentencePiece's processor with this model."""
        processor = library().SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(path.read_bytes())
        except RuntimeError:
            raise Failure(f"{path} is damaged: not a model of SentencePiece: {remedy}") from None
        return processor

    def load(self, remedy: str) -> None:
        self.model = self.read(self._file(MODEL, remedy), remedy)

    def split(self, sentences: Sequence[str]) -> List[str]:
        return encode(self.model, [one_line(sentence) for sentence in sentences])

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text(tokens)

    def text(self, printed: Sequence[str]) -> List[str]:
        return ["".join(known(line)).replace(SPACE, " ").strip() for line in printed]


def library() -> Any:
    """The package ``sentencepiece``.

    Raises:
        Failure: it is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise Failure("SentencePiece is not installed: run scripts/install.sh, or pip install sentencepiece") from None
    return sentencepiece


def encode(model: Any, lines: Sequence[str]) -> List[str]:
    """The pieces of each line, with spaces between them."""
    return [" ".join(pieces) for pieces in model.encode(list(lines), out_type=str, num_threads=1)]


def main(argv: Sequence[str]) -> None:
    model = SentencePiece.read(Path(argv[0]), "run scripts/prepare.sh again")
    lines: List[str] = []
    for line in sys.stdin.buffer:
        lines.append(line.decode("utf-8").rstrip("\n"))
        if len(lines) == CHUNK:
            _write(model, lines)
            lines = []
    _write(model, lines)


def _write(model: Any, lines: Sequence[str]) -> None:
    sys.stdout.buffer.write("".join(f"{line}\n" for line in encode(model, lines)).encode("utf-8"))


if __name__ == "__main__":
    run(main)
