"""Command lines of the benchmarks on tiny models, and the result that they write."""

import json
import shlex

import torch

from pipeline.benchmark.__main__ import main
from pipeline.benchmark.kinds import KINDS
from pipeline.paths import ROOT
from pipeline.provenance import code

SIDES = ("encoder", "decoder")
SIZES = {"layers": 1, "embed-dim": 32, "ffn-embed-dim": 64, "attention-heads": 4}
FLAGS = [
    "--",
    "--dropout",
    "0",
    *(word for side in SIDES for name, size in SIZES.items() for word in (f"--{side}-{name}", str(size))),
]
TRAIN = ["train", "--vocabulary", "100", "--tokens", "100", "--repeats", "2", "--device", "cpu"]
DECODE = ["decode", "--vocabulary", "100", "--length", "5", "--repeats", "2", "--device", "cpu"]
SPREAD = ["seconds", "quartiles (s)", "times as fast", "quartiles"]
CPU = torch.device("cpu")
TRANSLATION = KINDS["translation"]


def measured(tmp_path, capsys, *words):
    """The result that a command writes, whose rows it prints."""
    out = tmp_path / "out.json"
    own, flags = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, ())
    main([*own, "--out", str(out), *flags])
    result, printed = json.loads(out.read_text()), capsys.readouterr().out.splitlines()
    assert printed[0] == "| " + " | ".join(result["rows"][0]) + " |" and printed[2].count(" | ") == printed[0].count(
        " | "
    )
    shown = ["PATH" if word.startswith("/") else word for word in own]
    assert result["command"] == shlex.join(["scripts/benchmark.sh", *shown, "--out", "PATH", *flags])
    assert result["commit"] == code(ROOT)
    assert result["machine"]["torch"] == torch.__version__ and list(tmp_path.iterdir()) == [out]
    return result
