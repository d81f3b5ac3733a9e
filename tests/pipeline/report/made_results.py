"""Small result files for tests of the report: text of a few words, spoiled at a rate, with its real scores."""

import random
import re
from functools import cache

from pipeline.report.data import Wanted, read_report
from pipeline.report.render import seeds, to_markdown
from pipeline.results.file import FORMAT, write_result
from pipeline.scoring.statistics import bleu, columns, rows

WORDS = [f"w{i}" for i in range(40)]
SUBSETS = {"test": "test", "val": "valid", "test_x2": "test1", "test_x4": "test2", "test_long": "test3"}
LENGTHS = {"test_x2": 2, "test_x4": 4, "test_long": 3}
MACHINE = "x86_64, 2 cores"


@cache
def scored(name, rate):
    """Of one test set: ``rate`` of the words are wrong; equal rates have equal output."""
    chance = random.Random(name)
    factor = LENGTHS.get(name, 1)
    references = [[chance.choice(WORDS) for _ in range(factor * chance.randrange(6, 12))] for _ in range(60)]
    spoil = random.Random(f"{name} {rate}")
    output = [["x" if spoil.random() < rate else word for word in words] for words in references]
    sentences, hypotheses = ([" ".join(words) for words in text] for text in (references, output))
    statistics = columns(sentences, hypotheses, sentences)
    score = {"score": round(bleu(rows(statistics)), 2), "signature": "s"}
    return {
        "subset": SUBSETS.get(name, name),
        "sentences": len(sentences),
        "settings": "beam 4",
        "scores": {"sacrebleu": score},
        "statistics": statistics,
    }


def exact_bleu(name, rate):
    """Of the same, not rounded."""
    return bleu(rows(scored(name, rate)["statistics"]))


def result(folder, arch, seed=1, variant="", flags="", parameters=1000, speed=100, machine=MACHINE, **options):
    """Writes the file of a run.

    Args:
        measured: ``threads`` and ``jobs``, if they are recorded.
        unfinished: the reason.
        more: further entries.
        updates: that it reached.
        wanted: how many it was to reach (20).
        rates: of each test set, how much of it is wrong; all others become names of test sets.
    """
    measured, reason, more = options.pop("measured", {}), options.pop("unfinished", ""), options.pop("more", {})
    wanted = options.pop("wanted", 20)
    updates, rates = options.pop("updates", 20), options.pop("rates", {}) | options
    points = {"updates": [updates], "seconds": [9], "nll": [2.0]}
    made = {
        "format": FORMAT,
        "recipe": "small",
        "variant": variant,
        "arch": arch,
        "seed": seed,
        "entries": {},
        **({"unfinished": reason} if reason else {}),
        "run": {
            "command": f"scripts/train.sh --arch {arch} --seed {seed}",
            "flags": f"--arch {arch} --seed {seed} {flags}".strip(),
            "versions": {"python": "3"},
            "machine": machine,
            "max_update": str(wanted),
            **measured,
        },
        "training": {
            "parameters": parameters,
            "parameters_trained": parameters,
            "updates": updates,
            "target_tokens": 5000,
            "target_tokens_per_update": 250.0,
            "seconds": 50,
            "target_tokens_per_second": speed,
            "devices": [],
            "averaged": 5,
        },
        "data": {},
        "curve": {"train": points, "valid": points},
        "tests": {name: scored(name, rate) for name, rate in rates.items()},
        **more,
    }
    path = folder / f"small-{arch}-{variant}-seed{seed}.json"
    write_result(made, path)
    return path


def recipe(folder, name="small", **wanted):
    """The data of one recipe of the results in a folder."""
    return next(one for one in read_report([folder], Wanted(**wanted)).recipes if one["name"] == name)


def row(made, arch, variant=""):
    """What the columns of a recipe have of one system; of its sets by their names."""
    place = [system.label for system in made["systems"]].index((arch, variant))
    sets = {key: {one["name"]: one[key][place] for one in made["sets"]} for key in ("differences", "kept")}
    scores = {one["name"]: {key: column[place] for key, column in one["scores"].items()} for one in made["sets"]}
    measured = {key: made[key][place] for key in ("speed", "step") if made["systems"][place].runs}
    shown = seeds(made["systems"][place], made["sets"][0]["name"], made["key"])
    return {**sets, "scores": scores, **measured, "seeds": shown}


def markdown(folder, **wanted):
    return to_markdown(read_report([folder], Wanted(**wanted)))


def part(text, title):
    """What is under one heading; empty without it."""
    found = re.search(rf"^##+ {re.escape(title)}.*?$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def table(text, title):
    """The cells of a table under a heading, by the first cell; the header by ``header``."""
    lines = [line[2:-2] for line in part(text, title).splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return {"header": cells[0], **{row[0]: row[1:] for row in cells[1:]}}
