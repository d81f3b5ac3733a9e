"""Command lines of the benchmarks on tiny models, and the result that they write."""

import argparse
import json
import shlex

import torch

from pipeline.benchmark import measuring
from pipeline.benchmark.command import main
from pipeline.provenance import code

SIZES = {"layers": 1, "embed-dim": 32, "ffn-embed-dim": 64, "attention-heads": 4}
SMALL = [word for side in ("encoder", "decoder") for name, n in SIZES.items() for word in (f"--{side}-{name}", str(n))]
FLAGS = ["--", "--dropout", "0", *SMALL]
SHARED = ["--vocabulary", "100", "--repeats", "2", "--device", "cpu"]
TRAIN, DECODE = ["train", "--tokens", "100", *SHARED], ["decode", "--length", "5", *SHARED]
SPREAD = ["seconds", "quartiles (s)", "times as fast", "quartiles"]
CPU = torch.device("cpu")


def options(task, *flags):
    return argparse.Namespace(task=task, vocabulary=100, flags=flags, device=CPU)


def measured(tmp_path, capsys, monkeypatch, *words):
    """The result that a command writes, whose rows it prints."""
    monkeypatch.setattr(measuring, "SECONDS", 0.01)
    out = tmp_path / "out.json"
    own, flags = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, ())
    main([*own, "--out", str(out), *flags])
    result, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert ("aten::" in printed) == ("--profile" in words)
    head, _, *rows = (line for line in printed.splitlines() if line.startswith("|"))
    assert head == "| " + " | ".join(result["rows"][0]) + " |"
    for row, line in zip(result["rows"], rows):
        assert line == "| " + " | ".join(map(str, row.values())) + " |"
    assert result["command"] == shlex.join(["scripts/benchmark.sh", *own, "--out", "PATH", *flags])
    assert result["commit"] == code() and result["machine"]["torch"] == torch.__version__
    return result
