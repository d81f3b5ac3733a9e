"""Bytes of UTF-8 as tokens, each shown as one character, as with fairseq's ``--bpe bytes``. It needs no fairseq."""

from typing import List, Sequence

from .base import Text, known

SPACE = "\u2581"
PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
"""Bytes that stand for themselves; a space is :data:`SPACE`, and any other byte ``b`` is the character ``256 + b``."""

CHARACTERS = [chr(byte) if byte in PRINTABLE else SPACE if byte == 0x20 else chr(256 + byte) for byte in range(256)]
BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


class Bytes(Text):
    """Splits sentences into bytes, and joins them; nothing is learned."""

    applies_to = ("text",)
    tokens = "bytes"
    figure = "on bytes"

    def apply(self, lines: Sequence[str]) -> List[str]:
        return [" ".join(map(CHARACTERS.__getitem__, line.encode("utf-8"))) for line in lines]

    def text(self, printed: Sequence[str]) -> List[str]:
        return [_decode(known(line)) for line in printed]


def _decode(tokens: Sequence[str]) -> str:
    parts = (bytes([BYTES[token]]) if token in BYTES else token.encode("utf-8") for token in tokens)
    return b"".join(parts).decode("utf-8", errors="replace")
