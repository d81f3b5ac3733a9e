"""SentencePiece: subwords of raw text in any script, with or without spaces between words.

As a command, it splits lines, from stdin to stdout: ``python scripts/run.py pipeline.processing.pieces MODEL``.
"""

import re
import sys
from pathlib import Path
from typing import Any, List, Sequence, Set, Tuple

from ..command import Failure, run
from ..prepared import MODELS
from .base import Processing, one_line
from .tokens import known

MODEL = MODELS["sentencepiece"]

SPACE = "\u2581"
"""Stands for a space inside a piece."""

BYTES = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>(?: <0x[0-9A-F]{2}>)*(?!\S)")
"""Pieces of a model with ``byte_fallback``, for characters that it does not know."""

SETTINGS = {2, 3}
"""Fields of a model, by their numbers: how it splits and normalises text. The pieces, field 1, come first."""

CHUNK = 1000  # lines


class SentencePiece(Processing):
    """Splits raw sentences into pieces, which hold their spaces; joins pieces."""

    figure = "on the pieces of SentencePiece"

    @staticmethod
    def read(path: Path, remedy: str) -> Any:
        """SentencePiece's processor with this model."""
        processor, content = library().SentencePieceProcessor(), path.read_bytes()
        try:
            processor.LoadFromSerializedProto(content)
            if _fields(content) >= SETTINGS:
                return processor
        except (RuntimeError, IndexError):
            pass
        raise Failure(f"{path} is damaged: not a whole model of SentencePiece: {remedy}")

    @staticmethod
    def makes(codes: Any, token: str) -> bool:
        def is_piece(text: str) -> bool:
            return bool(codes.piece_to_id(text) != codes.unk_id())

        return is_piece(token) or not all(map(is_piece, token))  # the library joins unknown characters to one token

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        self.model = self.check_codes(self._file(MODEL, remedy), types, remedy)

    def split(self, sentences: Sequence[str]) -> List[str]:
        return encode(self.model, [one_line(sentence) for sentence in sentences])

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text(tokens)

    def text(self, printed: Sequence[str]) -> List[str]:
        lines = [" ".join(known(line)) for line in printed]
        if any(map(BYTES.search, lines)) and self._byte_fallback():
            lines = [BYTES.sub(_characters, line) for line in lines]
        return [line.replace(" ", "").replace(SPACE, " ").strip() for line in lines]

    def _byte_fallback(self) -> bool:
        """Whether the model has pieces for bytes; without it ``<0x41>`` is text that it does not know."""
        path = self.folder / MODEL
        model = self.read(path, "run scripts/average.sh again") if path.is_file() else None
        return model is not None and bool(model.is_byte(model.piece_to_id("<0x00>")))


def _characters(pieces: "re.Match[str]") -> str:
    """The characters whose bytes these pieces name, as the library decodes them."""
    return bytes(int(piece[3:5], 16) for piece in pieces[0].split()).decode("utf-8", errors="replace")


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


def _fields(content: bytes) -> Set[int]:
    """The numbers of the fields in a message of protocol buffers; the library also reads a part of a message."""

    def number(place: int) -> Tuple[int, int]:
        value = shift = 0
        while content[place] > 127:
            value, shift, place = value | content[place] % 128 << shift, shift + 7, place + 1
        return value | content[place] << shift, place + 1

    fields, place = set(), 0
    while place < len(content):
        key, place = number(place)
        size, place = number(place)
        fields.add(key >> 3)
        place += size
    return fields


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
