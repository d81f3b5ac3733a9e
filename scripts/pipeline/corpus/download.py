"""Downloads files, continues after an interruption, and records hashes. It needs no fairseq.

The archives of WMT are published without hashes. The first download writes the hashes of its files to ``SHA256SUMS``
beside them, and later calls check the files against it.
"""

import gzip
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import IO, Dict, Optional

from ..command import Failure
from ..files import sha256, write_text
from ..progress import Progress

BLOCK = 1 << 20
SUMS = "SHA256SUMS"


def read_sums(folder: Path) -> Dict[str, str]:
    """Maps file names to hashes, from ``SHA256SUMS``; empty without that file."""
    path = folder / SUMS
    text = path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""
    rows = [line.split() for line in text.splitlines()]
    if any(len(row) != 2 or not re.fullmatch("[0-9a-f]{64}", row[0]) for row in rows):
        raise Failure(f"{path}: not lines of a hash and a name: remove it to have the hashes recorded anew")
    return {name: digest for digest, name in rows}


def write_sums(folder: Path, sums: Dict[str, str]) -> None:
    """Writes the hashes as ``sha256sum`` does."""
    write_text(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))


def download(url: str, folder: Path) -> Path:
    """Downloads the gzip file at ``url`` to ``folder`` if it is missing, and checks it against ``SHA256SUMS``.

    Raises:
        Failure: there is no answer, no such file, too little data, or another hash than before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, sums = folder / url.rsplit("/", 1)[1], read_sums(folder)
    if not path.exists():
        _fetch(url, path)
    digest = sha256(path)
    expected = sums.setdefault(path.name, digest)
    if digest != expected:
        raise Failure(
            f"{path}: its SHA-256 is {digest}, but {expected} is in {SUMS}: remove the file to download it again, "
            f"or its line in {SUMS} if the new one is right"
        )
    write_sums(folder, sums)
    return path


def _fetch(url: str, path: Path) -> None:
    """Downloads ``url`` to ``path.part``, which a later call continues, and renames it to ``path``."""
    part = path.with_name(f"{path.name}.part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            resumed = getattr(answer, "status", None) == http.client.PARTIAL_CONTENT
            if not resumed:
                have = 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length else None
            _check_space(path.parent, total, have, url)
            _copy(answer, part, have, total, path.name)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            part.unlink()  # not the beginning of the present file
            return _fetch(url, path)
        raise Failure(f"{url}: {error.code} {error.reason}: try another --mirror") from None
    except (urllib.error.URLError, OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Failure(f"{url}: {reason}: call again to go on, or try another --mirror") from None
    check_gzip(part)
    os.replace(part, path)


def _check_space(folder: Path, total: Optional[int], have: int, url: str) -> None:
    free = shutil.disk_usage(folder).free
    if total is not None and total - have > free:
        raise Failure(f"{url}: {total - have:,} bytes to come, but {free:,} are free in {folder}: make room")


def _copy(answer: IO[bytes], part: Path, have: int, total: Optional[int], label: str) -> None:
    progress = Progress(label, total, "bytes")
    with part.open("ab" if have else "wb") as file:
        progress.begin(have)
        while block := answer.read(BLOCK):
            file.write(block)
            have += len(block)
            progress.to(have)
    progress.close()
    if total is not None and have < total:
        raise OSError(f"{have:,} of {total:,} bytes came")


def check_gzip(path: Path) -> None:
    """Raises Failure, and removes the file, if it is not a complete gzip file."""
    try:
        with gzip.open(path, "rb") as file:
            while file.read(BLOCK):
                pass
    except (OSError, EOFError, zlib.error) as error:
        path.unlink()
        raise Failure(f"{path}: not a complete gzip file ({error}): call again, or try another --mirror") from None
