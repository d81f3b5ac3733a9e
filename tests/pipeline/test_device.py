"""The GPUs that the jobs of a sweep take."""

import os
import tempfile
import threading

from pipeline import device


def test_jobs_take_gpus_of_their_own_and_wait_for_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(device, "SECONDS_BETWEEN_TRIES", 0.01)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    waited = threading.Event()

    def third():
        with device.one_of(["0", "1"]):
            waited.set()

    with device.one_of(["0", "1"]):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
        with device.one_of(["0", "1"]):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
            job = threading.Thread(target=third)
            job.start()
            assert not waited.wait(0.1)
        assert waited.wait(10) and os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    job.join()
