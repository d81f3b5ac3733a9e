"""An invented language in Chinese characters without spaces, for tests of text in such scripts."""

import re
import zlib


def chinese(sentence):
    """A translation of an English sentence, word by word: each word is always the same one or two characters."""
    return "".join(_word(word) for word in re.findall(r"\w+", sentence.lower())) + "。"


def _word(word):
    number = zlib.crc32(word.encode())
    characters = chr(0x4E00 + number % 80) + chr(0x4F00 + number // 80 % 80)
    return characters[: 1 + number % 2]
