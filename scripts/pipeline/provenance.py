"""Records what a run was made with: command, commit, versions, machine."""

import argparse
import os
import platform
import re
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Dict, Optional

from .files import write_json

PACKAGES = ("fairseq", "fairseq-fixed", "torch", "numpy", "sacrebleu", "sacremoses", "subword-nmt")


def versions() -> Dict[str, str]:
    """Versions of Python and of the installed packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit(root: Path) -> Optional[str]:
    """The checked-out commit of ``root``, with ``-dirty`` behind it if files differ; None outside git."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> str:
    """Processors and NVIDIA GPUs, in words."""
    parts = [f"{platform.machine()}, {os.cpu_count()} cores"]
    try:
        names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        parts += names[:1]
    except OSError:
        pass
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        gpus = Counter(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines())
        parts += [f"{count} x {name}" for name, count in gpus.items()]
    except (OSError, subprocess.CalledProcessError):
        pass
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of the project")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("entries", nargs="*", metavar="KEY=VALUE", help="further entries")
    args = parser.parse_args()
    info = {
        **dict(entry.split("=", 1) for entry in args.entries),
        "commit": commit(args.root),
        "versions": versions(),
        "machine": machine(),
    }
    write_json(args.out, info)


if __name__ == "__main__":
    main()
