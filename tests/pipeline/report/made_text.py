"""Result files of language models and of fine-tuning, for tests of the report."""

import math

from pipeline.report.data import Wanted, read_report
from pipeline.report.render import to_markdown

from .made_results import result

LEARNED, ROTARY, TUPE = "transformer_learned_mlm_tiny", "roformer_mlm_tiny", "tupe_a_mlm_tiny"


def scores(**values):
    return {key: {"score": value, "signature": "fairseq-validate"} for key, value in values.items()}


def model(
    folder, arch, perplexity, seed=1, task="masked_lm", name="books", variant="", blocks="blocks", tokens=500, **more
):
    """The result file of a language model; ``test_long`` is another text."""
    sets = {"test": perplexity, "test_long": perplexity + 1, "valid": perplexity + 2}
    tests = {
        key: {"subset": key, "sentences": 7, "settings": blocks, "scores": scores(perplexity=value, loss=4.5, **more)}
        for key, value in sets.items()
    }
    run = {"command": "scripts/train.sh", "flags": f"--arch {arch}", "versions": {}, "machine": "m", "task": task}
    counts = {unit: {"train": number} for unit, number in (("documents", 3), ("bytes", 4000), ("tokens", 1000))}
    counts["tokens"] |= dict.fromkeys(sets, tokens)
    points = {"updates": [10, 20], "seconds": [5, 9], "nll": [9.0, math.log2(perplexity)]}
    curve, data = {"train": points, "valid": points}, {**counts, "merges": 60}
    entries = {"recipe": name, "run": run, "tests": tests, "data": data, "curve": curve}
    return result(folder / name, arch, seed, variant, more=entries)


def tuned(
    folder,
    arch,
    task,
    seed=1,
    rate="3e-05",
    name="glue",
    count=5,
    shortened=None,
    chance=None,
    way="",
    how="",
    rates=(3e-5,),
    pretrained=None,
    **values,
):
    """The result file of a fine-tuning; ``way`` and ``pretrained`` are of the model before, ``how`` is its own."""
    test = {"subset": "dev", "sentences": 9, "settings": f"median of {count} seeds, learning rate {rate}"}
    run = {"command": f"scripts/finetune.sh {task}", "flags": f"--arch {arch}", "versions": {}, "machine": "m"}
    tests = {task: {**test, "scores": scores(**values), "chance": chance or {}}}
    data = {"examples": {"train": 20, "valid": 9}, "shortened": shortened or {}}
    grid = [{"learning_rate": rate, "seed": 1} for rate in rates]
    more = {"recipe": f"{name}_{task}", "run": run, "tests": tests, "data": data, "grid": grid}
    more["settings"] = f"train {way} --seed {seed}\nfinetune {task}{how}\n"
    if pretrained:
        more["pretrained"] = {"checkpoint": "0" * 64, "max_update": 2000, "averaged": 5, **pretrained}
    return result(folder / f"{len(task)}{way}{pretrained or ''}", arch, seed, more=more)


def folders(folder):
    return read_report(sorted(folder.iterdir()), Wanted())


def text(folder):
    return to_markdown(folders(folder))
