"""A training of train.sh, with the command of a trainer that nothing calls."""

from pipeline.training import train

TEMPLATE = ["trainer", "{data}/bin", "--max-update", "{max_update}", "--arch", "{arch}", "--seed", "{seed}", "--"]


def training(data, *options, arch="roformer_tiny"):
    out = data.parent / "run"
    words = ["--data", str(data), "--arch", arch, "--out", str(out), "--max-update", "8", *map(str, options)]
    return train.Training(train.parse([*TEMPLATE, *words]))
