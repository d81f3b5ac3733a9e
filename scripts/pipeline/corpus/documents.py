"""Documents of plain text: finds their files, checks and copies them, and splits them into sets. It needs no fairseq.

The copy has a line for each line of text, and an empty line between two documents, as fairseq expects it.
"""

import hashlib
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

import msgspec
from tqdm import tqdm

from ..command import Failure
from ..files import raw_lines, replacing_folder
from ..text.base import one_line
from .lines import each_once, lines, write_counts

Document = List[str]
"""The lines of a document, none of them empty."""

HELD_OUT = ("test", "valid")
"""The sets that :func:`copy_documents` holds out, in the order of their shares."""


def find_files(name: str) -> List[Path]:
    """The files of a set: a file, all files in a folder, or ``NAME.*``, in the order of their names.

    Hidden files, and what editors keep of an older text (``NAME~``), do not count.
    """
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        found = list(_below(path))
    else:
        beginning = f"{path.name}."
        found = [file for file in path.parent.glob("*") if path.name and file.name.startswith(beginning)]
    files = sorted(each_once(file for file in found if file.name[-1] != "~"))
    if not files:
        raise Failure(f"{name}: no such file or folder, nor {name}.*, or an empty folder: check the name")
    return files


def _below(folder: Path) -> Iterator[Path]:
    """The files below a folder that are not hidden, also behind links, of each folder once."""
    seen = set()
    for at, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(at)) in seen:
            folders.clear()  # a link to a folder above, or a second one
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name[0] != ".")  # which link comes first may not vary
        yield from (Path(at, name) for name in names if name[0] != ".")


def documents(files: Sequence[Path], start: str = "") -> Iterator[Document]:
    """The documents in files. Each ends with its file and at an empty line; in a file ``*.jsonl`` with its text alone.

    Args:
        start: if given, documents also end before each line that begins with it, and no longer at empty lines.
    """
    for part, whole in (part for file in files for part in _parts(file)):
        document: Document = []
        for line in part:
            if document and (line.startswith(start) if start else not (line or whole)):
                yield document
                document = []
            if line:
                document.append(line)
        if document:
            yield document


def _parts(file: Path) -> Iterator[Tuple[Iterable[str], bool]]:
    """The lines of a file, or of each text in the objects of a file ``*.jsonl``; and whether it is one document."""
    if not is_json(file):
        yield lines(file), False
        return
    for values in objects(file, Dict[str, str], "keep only the entries that are text to train on"):
        for text in values.values():
            yield map(one_line, text.split("\n")), True


def is_json(file: Path) -> bool:
    """Whether a file has JSON objects, one a line."""
    return file.name.removesuffix(".gz").endswith(".jsonl")


def objects(path: Path, kind: Any, remedy: str = "copy it again") -> Iterator[Any]:
    """The JSON objects of a file, one a line, plain or gzipped."""
    for number, line in enumerate(raw_lines(path), 1):
        try:
            yield msgspec.json.decode(line.encode(), type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Failure(f"{path}, line {number}: {error}: one JSON object a line: {remedy}") from None


def share(document: Document) -> float:
    """A number from 0 to 1 that follows from the text of the document alone, as if drawn at random."""
    digest = hashlib.sha256("\n".join(document).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") / (1 << 64)


def held_out(document: Document, percent: float) -> str:
    """The set of a document if ``percent`` of all are the test set, and as many the validation set."""
    place = int(share(document) * 100 / percent)
    return HELD_OUT[place] if place < len(HELD_OUT) else "train"


def copy_documents(
    sets: Mapping[str, Sequence[Path]], out: Path, language: str, start: str = "", percent: float = 0
) -> None:
    """Replaces the folder ``out`` by ``SUBSET.LANGUAGE``, and ``SUBSET.json`` with documents, lines and bytes.

    Those of other given sets than ``train`` also say how many of their documents are in ``train``.

    Args:
        sets: the files of each set; only those of ``train`` if sets are held out.
        start: as of :func:`documents`.
        percent: the part of the documents to hold out for each of :data:`HELD_OUT`; 0: none.
    """
    names = ["train", *reversed(HELD_OUT)] if percent else list(sets)
    counts = {name: dict(documents=0, lines=0, bytes=0) for name in names}
    placed = (
        (held_out(document, percent) if percent else name, document)
        for name, files in sets.items()
        for document in documents(files, start)
    )
    with replacing_folder(out) as folder:
        with ExitStack() as stack:
            files = {name: stack.enter_context((folder / f"{name}.{language}").open("wb")) for name in names}
            for name, document in tqdm(placed, "copy", leave=False, disable=None, unit=" documents"):
                separated = ["", *document] if counts[name]["documents"] else document
                content = "".join(f"{line}\n" for line in separated).encode("utf-8")
                files[name].write(content)
                for unit, more in (("documents", 1), ("lines", len(separated)), ("bytes", len(content))):
                    counts[name][unit] += more
        for name in names:
            if not counts[name]["documents"]:
                remedy = "give more documents, a larger --hold-out, or each set" if percent else "is it text?"
                raise Failure(f"no document for the set '{name}': {remedy}")
        write_counts(folder, [language], counts, lambda name: map(share, documents([Path(f"{name}.{language}")])))
