"""How a training is started: in which precision a run goes on."""

import pytest

from pipeline.files import read_json, write_json

from .test_train import data, training, trainings

__all__ = ["data", "trainings"]  # fixtures


@pytest.mark.parametrize("begun_with", [True, False])
def test_a_run_goes_on_in_the_precision_of_its_first_device(data, trainings, begun_with):
    training(data).run()
    record = data.parent / "run/run.json"
    write_json(record, {**read_json(record), "batch": "--bf16" if begun_with else ""})
    training(data, "--max-update", 9).run()
    assert trainings == [0, 8] and read_json(record)["batch"] == ("--bf16" if begun_with else "")
