"""Binarises a corpus with a joined dictionary, on several processors.

The files are those of ``fairseq-preprocess --joined-dictionary``, for text in one language those of ``--only-source``,
byte by byte, made with fairseq's own dictionary and builder. That command takes several times as long: it counts and
looks up tokens one by one, and its first process waits for the others.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import data_file_path, index_file_path, make_builder

from ..files import replacing_folder
from ..text.blocks import over_blocks


def count(lines: Sequence[str]) -> "Counter[str]":
    """How often each token occurs."""
    return Counter(token for line in lines for token in line.split())


def encode(dictionary: Dictionary, lines: Sequence[str]) -> List[List[int]]:
    """The indices of the tokens of each line, with ``</s>`` at its end."""
    indices, unknown, eos = dictionary.indices, dictionary.unk(), dictionary.eos()
    return [[*(indices.get(token, unknown) for token in line.split()), eos] for line in lines]


def learn(folder: Path, langs: Sequence[str], train: str, workers: int) -> Dictionary:
    """The joined dictionary of a training set."""
    tokens: Counter[str] = Counter()
    for lang in langs:
        for part in over_blocks(count, folder / f"{train}.{lang}", workers, f"count train.{lang}"):
            tokens.update(part)
    dictionary = Dictionary()
    for token, number in sorted(tokens.items()):
        dictionary.add_symbol(token, number)
    dictionary.finalize()
    return dictionary


def write(sentences: Iterable[List[int]], prefix: Path, dictionary: Dictionary) -> Dict[str, int]:
    """Writes indices as ``PREFIX.{bin,idx}``; returns the numbers ``sentences``, ``tokens`` and ``unknown``."""
    builder = make_builder(data_file_path(str(prefix)), impl="mmap", vocab_size=len(dictionary))
    counts, unknown = {"sentences": 0, "tokens": 0, "unknown": 0}, dictionary.unk()
    for sentence in sentences:
        builder.add_item(torch.IntTensor(sentence))
        counts["sentences"] += 1
        counts["tokens"] += len(sentence)
        counts["unknown"] += sentence.count(unknown)
    builder.finalize(index_file_path(str(prefix)))
    return counts


def binarize(
    folder: Path,
    langs: Sequence[str],
    subsets: Mapping[str, str],
    out: Path,
    workers: int,
    given: Mapping[str, Path] = {},
    more: Sequence[str] = (),
) -> Dict[str, Dict[str, Dict[str, int]]]:
    """Makes ``out``; returns the numbers of sentences, tokens and unknown ones of each subset and language.

    Args:
        folder: the folder with the text, tokens separated by spaces, as ``NAME.LANG``.
        langs: source and target language, or the language of text for language models.
        subsets: fairseq's name (train, valid, test, test1, ...) to the file's NAME; the dictionary is that of train.
        out: the folder to make, or to replace.
        given: dictionaries to take in place of a new one, for each language.
        more: types to add to them, at their ends.
    """
    if given:
        dictionaries = {lang: Dictionary.load(str(given[lang])) for lang in langs}
    else:
        dictionaries = dict.fromkeys(langs, learn(folder, langs, subsets["train"], workers))
    for dictionary in {id(dictionary): dictionary for dictionary in dictionaries.values()}.values():
        for token in more:
            dictionary.add_symbol(token, 0)
    counts: Dict[str, Dict[str, Dict[str, int]]] = {subset: {} for subset in subsets}
    with replacing_folder(out) as made:
        for lang, dictionary in dictionaries.items():
            dictionary.save(str(made / (f"dict.{lang}.txt" if len(langs) > 1 else "dict.txt")))
            for subset, name in subsets.items():
                blocks = over_blocks(
                    partial(encode, dictionary), folder / f"{name}.{lang}", workers, f"binarize {subset}.{lang}"
                )
                target = made / (f"{subset}.{'-'.join(langs)}.{lang}" if len(langs) > 1 else subset)
                counts[subset][lang] = write((line for block in blocks for line in block), target, dictionary)
    return counts
