"""Prepared data, and trainings without a trainer."""

import pytest

from pipeline.files import write_json
from pipeline.steps import stamp_path
from pipeline.training import launch, train

from .test_batch_size import binarised
from .test_checkpoints import checkpoint


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "bin").mkdir(parents=True)
    binarised(folder / "bin", "train", [4, 9, 30], [4, 8, 40])
    binarised(folder / "bin", "valid", [4, 9], [4, 35])
    write_json(stamp_path(folder, "binarize"), {"settings": "input x\n"})
    write_json(folder / "prepare.json", {"source": "en", "target": "de"})
    return folder


@pytest.fixture
def trainings(monkeypatch, variables):
    """In the place of fairseq-train one that makes its last checkpoint; the updates that each began with."""
    begun = []

    def started(machines, processes, command, log, total, label, smaller, given):
        folder = log.parent / "checkpoints"
        last = folder / train.checkpoints.LAST
        begun.append(train.checkpoints.updates_in(last) if last.is_file() else 0)
        variables.append(given)
        for name in (f"checkpoint_1_{total}.pt", "checkpoint_last.pt"):
            checkpoint(folder, name, total)
        return 0

    monkeypatch.setattr(launch, "train", started)
    return begun


@pytest.fixture
def variables():
    """What each of these trainings was given beside the environment."""
    return []
