"""The command that checks a checkpoint: the functions behind it are tested with averaging."""

import argparse
import subprocess
import sys

import torch

from ..commands import ROOT, one_line

TOOL = ROOT / "fairseq_rope/tools/checkpoint.py"


def check(path):
    """The command, and which of fairseq's modules it imported."""
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    code += "; print('fairseq' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code, TOOL, path], capture_output=True, text=True)


def test_it_prints_the_updates_and_needs_no_fairseq(tmp_path):
    state = {"args": argparse.Namespace(arch="x"), "cfg": None, "model": {}}
    torch.save({**state, "optimizer_history": [{"num_updates": 3}, {"num_updates": 12}]}, tmp_path / "a.pt")
    done = check(tmp_path / "a.pt")
    assert done.returncode == 0 and done.stdout.splitlines() == ["12", "False"]


def test_what_cannot_be_loaded_is_named_in_one_line(tmp_path):
    failed = check(tmp_path / "none.pt")
    assert failed.returncode == 1
    one_line(failed, "none.pt: no such checkpoint")
