"""The GPUs that the commands of a sweep take."""

import subprocess
import sys
import tempfile
from contextlib import ExitStack

import pytest

from pipeline.sweep import device

from ...commands import ENVIRONMENT


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(device, "SECONDS_BETWEEN_TRIES", 0.01)


def test_commands_take_gpus_of_their_own(gpus):
    with ExitStack() as others:
        assert device.take(["0", "1"], others)[0] == "0"
        with ExitStack() as one:
            assert device.take(["0", "1"], one)[0] == "1"
        assert device.take(["0", "1"], others)[0] == "1"


def test_a_gpu_is_taken_until_the_command_has_ended(gpus, tmp_path):
    script = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); sys.stdin.read()"
    words = [sys.executable, "-m", "pipeline.sweep.device", "5", sys.executable, "-c", script]
    environ = {**ENVIRONMENT, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as running:
        assert running.stdout.readline() == "5\n"
        with ExitStack() as other:
            assert device.take(["5", "6"], other)[0] == "6"
        running.communicate()
        with ExitStack() as other:
            assert device.take(["5", "6"], other)[0] == "5"
