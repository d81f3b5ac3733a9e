"""Files as every part of the pipeline reads and writes them: whole or not at all. Imports nothing of this package."""

import hashlib
import json
import os
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Iterator

BLOCK = 1 << 20  # bytes that are read at once


def sha256(path: Path) -> str:
    """The hash of a file, as ``sha256sum`` prints it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that becomes ``path`` when the block ends, and vanishes when that fails.

    It stands beside its target under a name of its own, so that two processes do not write into one file.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replaces ``path`` by ``text`` in UTF-8."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Replaces ``path`` by ``value`` as indented JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    return json.loads(path.read_text(encoding="utf-8"))
