"""Real disks for tests: a full one, and a folder that nobody can write to."""

import os
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(folder, *options):
    """A mount on ``folder`` until the block ends; without the right to mount the test is skipped."""
    if subprocess.run(["mount", *options, str(folder)], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full_disk(folder, free):
    """A disk of 1 MiB in ``folder`` with ``free`` bytes left."""
    folder.mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        (folder / "fill").write_bytes(bytes((1 << 20) - free))
        yield folder


@contextmanager
def read_only(folder):
    """``folder`` as on a disk that is read-only."""
    if os.getuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield folder
