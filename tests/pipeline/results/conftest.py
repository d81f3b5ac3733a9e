import json

import pytest

from pipeline.files import write_json
from pipeline.steps import stamp_path

from ..report import made_results
from ..training.logs import KILLED, RESUMED


@pytest.fixture
def finished(tmp_path):
    """A run and its data, as the scripts leave them behind."""
    run, data = tmp_path / "run", tmp_path / "data"
    for folder in (run / "scores", data / "raw"):
        folder.mkdir(parents=True)
    info = {"arch": "roformer_tiny", "seed": "3", "flags": "--arch roformer_tiny --seed 3", "versions": {}}
    info["command"] = f"scripts/train.sh --data {data} --arch roformer_tiny --out {run} -- --lr 1"
    (run / "run.json").write_text(json.dumps({**info, "machine": "x"}))
    (run / "train.log").write_text("\n".join([*KILLED, *RESUMED]) + "\n")
    write_json(stamp_path(run, "train"), {"settings": "x"})
    write_json(stamp_path(run, "average"), {"settings": "average last 5", "averaged": 5})
    said = {"name": "run", "checkpoint": "0", "commit": "c0ffee"}
    write_json(run / "scores/test1.json", {**said, **made_results.scored("test_x2", 0.2)})
    prepared = {"pairs": {"train": 9, "valid": 2}, "cleaned": {"kept": 8}, "bpe": {"merges": 5}, "vocabulary": 7}
    prepared["command"] = "scripts/prepare.sh --train /a\\ b/train --test /a\\ b/news --merges 5 --out /a/data"
    (data / "prepare.json").write_text(json.dumps(prepared))
    return run, data
