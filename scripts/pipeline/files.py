"""Reads and writes files for all parts of the pipeline: whole or not at all."""

import gzip
import hashlib
import json
import os
import shutil
import uuid
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Iterator, List, Type, TypeVar

import msgspec

from .command import FULL, Failure

BLOCK = 1 << 20
Content = TypeVar("Content")


def sha256(path: Path) -> str:
    """The hash of a file, as ``sha256sum`` prints it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that becomes ``path`` when the block ends, and vanishes when it fails.

    Until then it has a unique name beside its target (``file.name``), so two processes do not write to one file.
    """
    if path.exists() and not path.is_file():
        raise Failure(f"{path} is no regular file: name another one")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        if str(error.filename) == str(temporary) or (error.errno in FULL and error.filename is None):
            error.filename = str(path)  # the name that the user knows; an error of writing has none
        raise
    finally:
        with suppress(OSError):  # mostly: it was renamed
            temporary.unlink()


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Removes what a kill -9 left of files that were being written in a folder whose lock this process holds.

    Args:
        name: beginning of the names of these files; also of checkpoints, which the plugin writes in the same way.
    """
    for path in folder.glob(f".{name}*.tmp"):
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A folder that replaces ``path`` when the block ends, and vanishes when it fails."""
    temporary = path.with_name(f"{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Replaces ``path`` by ``text`` in UTF-8, unless it holds that text already."""
    content = text.encode("utf-8")
    if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
        return
    with replacing(path) as file:
        file.write(content)


def copy(source: Path, target: Path) -> None:
    """Replaces ``target`` by the content of ``source``."""
    with source.open("rb") as content, replacing(target) as file:
        shutil.copyfileobj(content, file, BLOCK)


def write_json(path: Path, value: Any) -> None:
    """Replaces ``path`` by ``value`` as JSON."""
    write_text(path, to_text(value) + "\n")


def to_text(value: Any, indent: int = 0) -> str:
    """JSON with one entry per line, also for each item in a list of objects; any other list is on one line."""
    inner, end = " " * (indent + 1), " " * indent
    if isinstance(value, dict) and value:
        lines = [f"{inner}{_line(key)}: {to_text(entry, indent + 1)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{end}}}"
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return "[\n" + ",\n".join(inner + _line(entry) for entry in value) + f"\n{end}]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read_as(path: Path, kind: Type[Content], remedy: str, strict: bool = True) -> Content:
    """The content of a JSON file as a class of msgspec; if not ``strict``, numbers may be in quotes."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, strict=strict)
    except FileNotFoundError:
        raise Failure(f"{path} not found: {remedy}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: {error}: {remedy}") from None


def read_json(path: Path, remedy: str = "make it again or remove it") -> Any:
    """The same, whatever its shape."""
    return read_as(path, Any, remedy)


def raw_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped, as they are, without their newlines and a byte order mark."""
    number = 1
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\n")
        except UnicodeDecodeError as error:
            raise Failure(f"{path}, line {number}: not UTF-8 ({error.reason}): convert it with iconv") from None
        except (EOFError, OSError, zlib.error) as error:
            raise Failure(f"{path}: cannot be read ({error}): copy or download it again") from None


def read_lines(path: Path) -> List[str]:
    """The same as a list, in which the newlines may be those of Windows."""
    return [line.rstrip("\r") for line in raw_lines(path)]
