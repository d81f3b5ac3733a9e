"""How a training is started: in which precision a run goes on, and what happens where the memory is too small."""

import signal
import sys
import time

import pytest
import torch

from pipeline.command import Failure
from pipeline.files import read_json, write_json
from pipeline.training import launch

from ...commands import start
from .trainings import training


@pytest.mark.parametrize("begun_with", [True, False])
def test_a_run_goes_on_in_the_precision_of_its_first_device(data, trainings, begun_with):
    training(data).run()
    record = data.parent / "run/run.json"
    write_json(record, {**read_json(record), "batch": "--bf16" if begun_with else ""})
    training(data, "--max-update", 9).run()
    assert trainings == [0, 8] and read_json(record)["batch"] == ("--bf16" if begun_with else "")


def test_several_processes_share_the_threads(data, trainings, variables, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        training(data, "--processes", 2).run()
    finally:
        torch.set_num_threads(before)
    assert read_json(data.parent / "run/run.json")["threads"] == variables[0]["OMP_NUM_THREADS"] == "2"


WAITING = """
import sys, time
from pathlib import Path
print("begun", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
"""


@pytest.mark.slow
def test_a_training_under_nohup_goes_on_after_a_hangup(tmp_path):
    (tmp_path / "worker.py").write_text(WAITING)
    words = [*launch.torchrun(launch.Machines(), 1)[:-2], tmp_path / "worker.py", tmp_path / "end"]
    with start(*words, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as command:
        try:
            assert command.stdout.readline() == "begun\n"
            command.send_signal(signal.SIGHUP)
            time.sleep(0.5)
        finally:
            (tmp_path / "end").touch()
        assert command.wait(60) == 0


def test_a_training_without_memory_says_what_to_do_and_warnings_reach_the_terminal_once(tmp_path, monkeypatch, capsys):
    def train(program):
        monkeypatch.setattr(launch, "torchrun", lambda machines, processes: [sys.executable, "-c", program])
        launch.train(launch.Machines(), 1, [""], tmp_path / "train.log", 9, "train", "a smaller batch")

    warning = "print('2026-01-01 00:00:00 | WARNING | fairseq_rope.loading | other encodings')\n"
    with pytest.raises(Failure, match=r"CUDA out of memory.* \(log: .*train\.log\): a smaller batch$"):
        train(f"{warning * 2}raise MemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')")
    assert capsys.readouterr().err.count("warning: other encodings") == 1
    with pytest.raises(Failure, match=r"ValueError: other \(log: .*train\.log\)$"):
        train("raise ValueError('other')")
    with pytest.raises(Failure, match="no reason given"):  # not that of the call before
        train("raise SystemExit(3)")
    killed = "E1130 failed (exitcode: -9) local_rank: 0 (pid: 7) of binary: python"  # torchrun's
    with pytest.raises(Failure, match=r"ended by SIGKILL \(log: .*\): a smaller batch$"):
        train(f"print({killed!r}); raise SystemExit('crashed again without a new checkpoint')")
