"""An invented language in Chinese characters without spaces, for tests of text in such scripts."""

import re
import zlib


def chinese(sentence):
    """A translation of an English sentence, word by word: each word is always the same one or two characters."""
    numbers = [zlib.crc32(word.encode()) for word in re.findall(r"\w+", sentence.lower())]
    return "".join((chr(0x4E00 + n % 80) + chr(0x4F00 + n // 80 % 80))[: 1 + n % 2] for n in numbers) + "。"
