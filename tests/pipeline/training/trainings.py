"""A training of train.sh whose trainer is never called."""

from pipeline.training import train


def training(data, *options, arch="roformer_tiny"):
    out = data.parent / "run"
    words = ["--data", str(data), "--arch", arch, "--out", str(out), "--max-update", "8", *map(str, options)]
    return train.Training(train.parse(words))
