"""Binarises a corpus with a joined dictionary as ``fairseq-preprocess`` does, in shards on several processors.

The files are those of ``fairseq-preprocess --joined-dictionary``, for text in one language those of ``--only-source``,
byte by byte, made with fairseq's own dictionary and builder. That command shows no progress, keeps nothing when it is
killed, and waits for its other processes before it does its own share. Here, finished shards stay in ``BIN.shards``.
The dictionary is made from the subset ``train``.
"""

import json
import shutil
import signal
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import data_file_path, index_file_path, make_builder

from ..command import SIGNALS
from ..files import replacing_folder, write_text
from ..processes import end_with_parent
from .shards import Shard, even_shards, find_shards, keep_if_the_same, key_of, run_jobs

IMPLEMENTATION = "mmap"
FileKey = Tuple[str, str]
"""Subset and language."""
Done = Tuple[Path, Dict[str, int]]
"""The part of a finished shard and its counts."""


def read_shard(path: Path, shard: Shard) -> Iterator[List[str]]:
    """The tokens of each line of one shard."""
    with path.open("rb") as file:
        file.seek(shard.start)
        for _ in range(shard.lines):
            yield file.readline().decode("utf-8").split()


def count_shard(path: Path, shard: Shard, part: Path) -> Done:
    """How often each token occurs in a shard."""
    counts: Counter[str] = Counter()
    for tokens in read_shard(path, shard):
        counts.update(tokens)
    return part, counts


def binarize_shard(path: Path, shard: Shard, part: Path, dictionary_path: Path) -> Done:
    """Writes the indices of a shard, with </s> at the end of each line, as ``PART.{bin,idx}``; returns counts."""
    dictionary = Dictionary.load(str(dictionary_path))
    indices, unknown, eos = dictionary.indices, dictionary.unk(), dictionary.eos()
    builder = make_builder(data_file_path(str(part)), impl=IMPLEMENTATION, vocab_size=len(dictionary))
    counts = {"sentences": 0, "tokens": 0, "unknown": 0}
    for tokens in read_shard(path, shard):
        line = [indices.get(token, unknown) for token in tokens]
        counts["unknown"] += line.count(unknown)
        builder.add_item(torch.IntTensor([*line, eos]))
        counts["sentences"] += 1
        counts["tokens"] += len(line) + 1
    builder.finalize(index_file_path(str(part)))
    return part, counts


def _finish(done: Done) -> None:
    """Writes the counts of a shard to PART, which marks it as finished."""
    path, content = done
    write_text(path, json.dumps(content, ensure_ascii=False))


def build_dictionary(counts: List[Path]) -> Dictionary:
    """fairseq's dictionary of the counted tokens."""
    total: Counter[str] = Counter()
    for path in counts:
        total.update(json.loads(path.read_text(encoding="utf-8")))
    dictionary = Dictionary()
    for token, count in sorted(total.items()):
        dictionary.add_symbol(token, count)
    dictionary.finalize()
    return dictionary


def binarize(
    folder: Path, langs: Sequence[str], subsets: Dict[str, str], out: Path, workers: int, lines: int
) -> Dict[str, Dict[str, Dict[str, int]]]:
    """Makes ``out``; returns the numbers ``sentences``, ``tokens`` and ``unknown`` for each subset and language.

    Args:
        folder: the folder with the text, tokens separated by spaces, as ``NAME.LANG``.
        langs: source and target language, or the language of text for language models.
        subsets: fairseq's name (train, valid, test, test1, ...) to the file's NAME.
        out: the folder to make, or to replace.
        lines: the largest size of a shard; a kill costs each worker one shard.
    """
    sources = {(subset, lang): folder / f"{name}.{lang}" for subset, name in subsets.items() for lang in langs}
    folder_of_parts = out.with_name(f"{out.name}.shards")
    shards = {key: _even(path, workers, lines) for key, path in sources.items()}
    key = key_of((subsets, list(shards.items())), list(sources.values()))
    keep_if_the_same(folder_of_parts, key)
    parts = folder_of_parts / key[:16]  # processes that a killed run left behind must not write among these
    parts.mkdir(exist_ok=True)
    dictionary_path = parts / "dict.txt"
    with ProcessPoolExecutor(workers, initializer=_begin_worker) as pool:

        def over_shards(
            label: str, kind: str, keys: List[FileKey], work: Callable[..., Done], *more: Any
        ) -> Dict[FileKey, List[Path]]:
            """Calls ``work`` for each shard whose part is missing; returns the parts."""
            part_paths = {
                key: [parts / f"{'.'.join(key)}.{i:06d}{kind}" for i in range(len(shards[key]))] for key in keys
            }
            jobs = [(key, shard, part) for key in keys for shard, part in zip(shards[key], part_paths[key])]
            missing = [(s.lines, (sources[key], s, part, *more)) for key, s, part in jobs if not part.exists()]
            run_jobs(pool, work, missing, label, sum(shard.lines for _, shard, _ in jobs), _finish)
            return part_paths

        counted = over_shards("count tokens", ".counts", [key for key in sources if key[0] == "train"], count_shard)
        dictionary = build_dictionary([path for paths in counted.values() for path in paths])
        dictionary.save(str(dictionary_path))
        binarized = over_shards("binarize", "", list(sources), binarize_shard, dictionary_path)
    result: Dict[str, Dict[str, Dict[str, int]]] = {subset: {} for subset in subsets}
    with replacing_folder(out) as folder_of_data:
        for (subset, lang), done in binarized.items():
            target = str(folder_of_data / data_name(subset, langs, lang))
            builder = make_builder(data_file_path(target), impl=IMPLEMENTATION, vocab_size=len(dictionary))
            counts: Counter[str] = Counter()
            for part in done:
                builder.merge_file_(str(part))
                counts.update(json.loads(part.read_text()))
            builder.finalize(index_file_path(target))
            expected = sum(shard.lines for shard in shards[subset, lang])
            assert counts["sentences"] == expected, f"{target} has {counts['sentences']} of {expected} sentences"
            result[subset][lang] = dict(counts)
        for lang in langs:
            shutil.copyfile(dictionary_path, folder_of_data / dictionary_name(langs, lang))
    shutil.rmtree(folder_of_parts)
    return result


def data_name(subset: str, langs: Sequence[str], lang: str) -> str:
    """fairseq's name of the binarised side of a set, without its ending."""
    return f"{subset}.{'-'.join(langs)}.{lang}" if len(langs) > 1 else subset


def dictionary_name(langs: Sequence[str], lang: str) -> str:
    """fairseq's name of the dictionary of a side."""
    return f"dict.{lang}.txt" if len(langs) > 1 else "dict.txt"


def _begin_worker() -> None:
    """Leaves signals to the parent process, and does not outlive it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()


def _even(path: Path, workers: int, lines: int) -> List[Shard]:
    with path.open("rb") as file:
        total = sum(1 for _ in file)
    return find_shards(path, even_shards(total, workers, lines))
