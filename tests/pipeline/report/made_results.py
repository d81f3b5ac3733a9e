"""Small result files for tests of the report: text of a few words, spoiled at a rate, with its real scores."""

import random
from functools import cache

from pipeline.files import write_json
from pipeline.report.recipe import read_report
from pipeline.results import FORMAT
from pipeline.scoring.statistics import bleu, columns, rows

SINUSOIDAL, ROTARY, LEARNED = "transformer_sinusoidal_tiny", "roformer_tiny", "transformer_learned_tiny"
WORDS = [f"w{i}" for i in range(40)]
SUBSETS = {"test": "test", "val": "valid", "test_x2": "test1", "test_x4": "test2"}
LENGTHS = {"test_x2": 2, "test_x4": 4}


@cache
def scored(name, rate):
    """One test set: ``rate`` of the words are wrong; equal rates have equal output."""
    chance = random.Random(name)
    sizes = [LENGTHS.get(name, 1) * chance.randrange(6, 12) for _ in range(60)]
    references = [[chance.choice(WORDS) for _ in range(size)] for size in sizes]
    spoil = random.Random(f"{name} {rate}")
    output = [["x" if spoil.random() < rate else word for word in words] for words in references]
    sentences, hypotheses = ([" ".join(words) for words in text] for text in (references, output))
    statistics = columns(sentences, hypotheses, sentences)
    scores = {"sacrebleu": {"score": round(bleu(rows(statistics)), 2), "signature": "s"}}
    return {
        "subset": SUBSETS.get(name, name),
        "sentences": len(sentences),
        "settings": "beam 4",
        "scores": scores,
        "statistics": statistics,
    }


def exact_bleu(name, rate):
    """The same, not rounded."""
    return bleu(rows(scored(name, rate)["statistics"]))


def result(folder, arch, seed=1, variant="", flags="", updates=20, run=None, training=None, more=None, **rates):
    """Writes the file of a run.

    Args:
        run, training, more: further entries.
        rates: of each test set, how much of it is wrong.
    """
    points = {"updates": [10, updates], "nll": [3.0, 2.0]}
    costs = {"parameters": 1000, "updates": updates, "averaged": 5, "devices": []}
    made = {
        "format": FORMAT,
        "recipe": "small",
        "variant": variant,
        "arch": arch,
        "seed": seed,
        "run": {
            "command": f"scripts/train.sh --arch {arch} --seed {seed}",
            "flags": f"--arch {arch} --seed {seed} {flags}".strip(),
            "versions": {"python": "3"},
            "machine": "x86_64, 2 cores",
            "max_update": "20",
            **(run or {}),
        },
        "training": {**costs, **(training or {})},
        "data": {},
        "curve": {"train": points, "valid": points},
        "tests": {name: scored(name, rate) for name, rate in rates.items()},
        **(more or {}),
    }
    path = folder / f"{made['recipe']}-{arch}-{variant}-seed{seed}.json"
    write_json(path, made)
    return path


def scores(**values):
    return {key: {"score": value, "signature": "x"} for key, value in values.items()}


def model(folder, arch, perplexity, seed=1, tokens=500, blocks="blocks"):
    """The result file of a language model."""
    test = {"subset": "test", "sentences": 7, "settings": blocks, "scores": scores(perplexity=perplexity)}
    more = {"recipe": "books", "tests": {"test": test}, "data": {"tokens": {"test": tokens, "train": 1000}}}
    return result(folder, arch, seed, more=more)


def tuned(folder, arch, task, seed=1, way="", rates=(3e-5,), updates=2000, **values):
    """The result file of a fine-tuning; ``way`` and ``updates`` are of the model before."""
    settings = f"median of 3 seeds, learning rate {rates[0]:g}"
    test = {"subset": "dev", "sentences": 9, "settings": settings, "scores": scores(**values)}
    cells = [(rate, gap) for rate in rates for gap in ((0, 1, -1) if rate == rates[0] else (50,))]
    grid = [{"learning_rate": rate, "seed": 1, **{key: v + gap for key, v in values.items()}} for rate, gap in cells]
    more = {"recipe": f"glue_{task}", "tests": {task: test}, "grid": grid}
    more["settings"] = f"train {way} --seed {seed}\nfinetune {task} 0a1b epochs 3\n"
    more["pretrained"] = {"checkpoint": "0", "max_update": updates, "updates": updates}
    (folder / f"{way}{updates}").mkdir(exist_ok=True, parents=True)
    return result(folder / f"{way}{updates}", arch, seed, more=more)


def recipe(*folders, **options):
    """The only recipe of the results in some folders."""
    (made,) = read_report(folders, **options).recipes
    return made


def named(made):
    """The systems of a recipe by their names, the best first."""
    return {system.name: system for system in made.systems}
