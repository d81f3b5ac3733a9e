"""The conditions of a run: commit, versions, machine."""

import os
import platform
import re
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, Optional

CPU_INFO = Path("/proc/cpuinfo")
PACKAGES = ("fairseq", "fairseq-fixed", "torch", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")


def versions() -> Dict[str, str]:
    """Versions of Python and of the installed packages that a result depends on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def commit(root: Path) -> Optional[str]:
    """The checked-out commit of ``root``, followed by ``-dirty`` if files differ; None outside git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_model() -> str:
    """The model of the first processor; empty if the system does not say."""
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.exists() else ""
    return next(iter(re.findall(r"model name\s*: (.*)", text)), "")


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


def provenance(root: Path) -> Dict[str, Any]:
    """Commit, versions and machine, for the record of a run."""
    return {"commit": commit(root), "versions": versions(), "machine": machine()}
