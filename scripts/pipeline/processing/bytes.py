"""Bytes of UTF-8 as tokens, each shown as one character, as with fairseq's ``--bpe bytes``. It needs no fairseq.

As a command, it splits lines, from stdin to stdout: ``python scripts/run.py pipeline.processing.bytes``.
"""

import sys
from typing import List, Sequence

from ..command import run
from .base import Processing, one_line
from .pieces import SPACE
from .tokens import known

PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
"""Bytes that stand for themselves; a space is :data:`SPACE`, and any other byte ``b`` is the character ``256 + b``."""

CHARACTERS = [chr(byte) if byte in PRINTABLE else SPACE if byte == 0x20 else chr(256 + byte) for byte in range(256)]
BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


class Bytes(Processing):
    """Splits sentences into bytes, and joins them."""

    figure = "on bytes"

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        """It needs no files."""

    def split(self, sentences: Sequence[str]) -> List[str]:
        return [encode(one_line(sentence).encode("utf-8")) for sentence in sentences]

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text(tokens)

    def text(self, printed: Sequence[str]) -> List[str]:
        return [_decode(known(line)) for line in printed]


def encode(text: bytes) -> str:
    """The tokens of a line, with spaces between them."""
    return " ".join(CHARACTERS[byte] for byte in text)


def _decode(tokens: Sequence[str]) -> str:
    parts = (bytes([BYTES[token]]) if token in BYTES else token.encode("utf-8") for token in tokens)
    return b"".join(parts).decode("utf-8", errors="replace")


def main(argv: Sequence[str]) -> None:
    for line in sys.stdin.buffer:
        tokens = encode(line.rstrip(b"\n"))
        sys.stdout.buffer.write(f"{tokens}\n".encode())


if __name__ == "__main__":
    run(main)
