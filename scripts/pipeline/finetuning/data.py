"""Encodes a task with the subwords and the dictionary of a pretrained model, as fairseq's task reads it."""

from collections import Counter
from operator import ne
from pathlib import Path
from typing import List, Sequence

from fairseq.data import Dictionary

from fairseq_rope.checkpoints.model_folder import read_dictionary, types

from ..command import Failure, as_failure, say
from ..corpus import binarize
from ..files import copy, replacing_folder, write_text
from ..prepared import read_prepared
from ..text import text_processing
from .tasks import FineTuningTask, Sets

DICTIONARY = "dict.txt"

MOST_UNKNOWN = 0.5
"""The largest part of the tokens that the model may not know."""


def encode(task: FineTuningTask, sets: Sets, run: Path, out: Path, longest: int) -> None:
    """Replaces the folder ``out`` by ``input0``, ``input1`` and so on and ``label``, as fairseq's task names them.

    Args:
        sets: the examples of each set, by fairseq's name.
        run: the model folder of the pretrained model.
        longest: tokens that the model takes; see :func:`shorten`.
    """
    remedy = f"run scripts/average.sh --run {run} --data DATA again"
    prepared = read_prepared(run, remedy)
    processing = text_processing(run, prepared, prepared.source, prepared.target)
    prepared.check_folder(run, remedy)
    with as_failure():
        words = read_dictionary(run / DICTIONARY, remedy)
    processing.load(remedy, types(words))
    split = {name: [processing.split(list(example.sentences)) for example in found] for name, found in sets.items()}
    lines = {name: [shorten(sentences, longest) for sentences in found] for name, found in split.items()}
    if cut := sum(sum(map(ne, split[name], lines[name])) for name in sets):
        of = sum(map(len, sets.values()))
        say(f"{task.name}: {cut:,} of {of:,} examples are shortened, as the model takes {longest} tokens")
    classes = task.labels if task.fairseq == "sentence_prediction" else ()
    counts: Counter[str] = Counter()
    with replacing_folder(out) as folder:
        for number in range(len(task.sentences)):
            copy(run / DICTIONARY, folder / f"input{number}" / DICTIONARY)
            for name, found in lines.items():
                counts += _binarize([sentences[number] for sentences in found], folder / f"input{number}", name)
        if classes:
            write_text(folder / "label" / DICTIONARY, "".join(f"{label} 1\n" for label in classes))
        for name, examples in sets.items():
            labels = [example.label for example in examples]
            if classes:
                _binarize(labels, folder / "label", name)
            else:
                write_text(folder / "label" / f"{name}.label", "".join(f"{label}\n" for label in labels))
        unknown, tokens = counts["unknown"], counts["tokens"] - counts["sentences"]  # without </s>
        said = f"{task.name}: {unknown:,} of {tokens:,} tokens are unknown to the model"
        if unknown > MOST_UNKNOWN * tokens:
            raise Failure(f"{said}: {run} was trained on text of another language or kind")
        if unknown:
            say(said)


def shorten(sentences: Sequence[str], longest: int) -> List[str]:
    """The sentences of an example, without the ends that the model has no room for.

    fairseq joins the first sentence with each of the others, ``<s> A </s> </s> B </s>``, or to rank, the other way. As
    in BERT, the longer one of a pair loses its end until both fit; fairseq itself would cut the pair, and with it all
    of B.

    Args:
        sentences: their tokens, separated by spaces.
        longest: tokens of a joined pair, or of a sentence alone.
    """
    first, *others = (sentence.split() for sentence in sentences)
    room = longest - (4 if others else 2)
    if room < (2 if others else 1):
        raise Failure(f"the model takes {longest} tokens, too few for this task: pretrain it with longer blocks")
    other = max(map(len, others), default=0)
    kept = min(len(first), max(room - other, -(-room // 2))) if others else room
    return [" ".join(first[:kept]), *(" ".join(words[: room - kept]) for words in others)]


def _binarize(lines: Sequence[str], folder: Path, split: str) -> Counter[str]:
    """Writes lines of tokens as ``SPLIT.bin`` and ``SPLIT.idx``, with the dictionary in the folder; returns counts."""
    words = Dictionary.load(str(folder / DICTIONARY))
    return Counter(binarize.write(binarize.encode(words, lines), folder / split, words))
