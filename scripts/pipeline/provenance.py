"""The conditions of a run: commit, versions, machine."""

import hashlib
import os
import platform
import re
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import msgspec

from .files import read_as, sha256, write_json
from .paths import ROOT

CODE = ("fairseq_rope", "scripts", "tests")
"""The folders of the program and its tests."""

RECORD = "run.json"
PACKAGES = ("fairseq", "fairseq-fixed", "torch", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")


class Record(msgspec.Struct):
    """The entries of ``run.json`` that are read, in the folder of a run and in its result file."""

    command: str = ""
    arch: str = ""
    task: str = "translation"
    seed: int = 0
    flags: str = ""
    batch: str = ""
    max_update: int = 0
    average: int = 0
    threads: str = ""
    products: str = ""
    start: str = msgspec.field(name="from", default="")
    """The training with which it began, or the name of a file, and its hash."""
    machine: str = ""
    commit: Optional[str] = None
    versions: Dict[str, str] = {}


def read_record(run: Path, remedy: str = "remove it") -> Record:
    """The record of a run; empty if there is none. Raises Failure if it is damaged."""
    path = run / RECORD
    return read_as(path, Record, remedy, strict=False) if path.is_file() else Record()


def versions() -> Dict[str, str]:
    """Versions of Python and of the installed packages that a result depends on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def code() -> str:
    """The commit of the project, with ``-dirty`` if files differ; without a repository, a hash of program and tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own["GIT_CEILING_DIRECTORIES"] = str(ROOT.resolve().parent)  # not that of a repository around it
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=own).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        paths = sorted(path for name in CODE for path in (ROOT / name).rglob("*") if path.suffix != ".pyc")
        lines = [f"{path.relative_to(ROOT)} {sha256(path)}\n" for path in paths if path.is_file()]
        return f"code {hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def cpu_info() -> str:
    """What Linux says of the processors; empty on other systems."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8") if path.exists() else ""


def cpu_model() -> str:
    """The model of the first processor; empty if the system does not say."""
    return next(iter(re.findall(r"model name\s*: (.*)", cpu_info())), "")


def machine() -> str:
    """Processors and NVIDIA GPUs, in words."""
    parts = [f"{platform.machine()}, {os.cpu_count()} cores", *filter(None, [cpu_model()])]
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        gpus = Counter(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines())
        parts += [f"{count} x {name}" for name, count in gpus.items()]
    except (OSError, subprocess.CalledProcessError):
        pass
    return ", ".join(parts)


def provenance() -> Dict[str, Any]:
    """Commit or hash of the code, versions and machine, for the record of a run."""
    return {"commit": code(), "versions": versions(), "machine": machine()}


def write_record(path: Path, record: Mapping[str, Any], continues: bool) -> None:
    """Writes the record of a run as JSON, with commit, versions and machine.

    In the record of a run that continues, a machine, commit, version or number of threads that changed has both values.
    """
    now: Dict[str, Any] = {**{key: str(value) for key, value in record.items()}, **provenance()}
    if continues and path.is_file():
        before = read_record(path.parent)
        now.update({key: _both(getattr(before, key), now[key]) for key in ("machine", "commit", "threads")})
        now["versions"] = {name: _both(before.versions.get(name), value) for name, value in now["versions"].items()}
    write_json(path, now)


def _both(before: Optional[str], now: Optional[str]) -> Optional[str]:
    if not before or not now:
        return now
    return before if f", then {before}".endswith(f", then {now}") else f"{before}, then {now}"
