"""Result files: JSON of one run, which ``scripts/reproduce.sh`` collects and the report reads. It needs no fairseq.

A result has everything that the report needs: scores with signatures, sacrebleu's statistics of each sentence,
learning curves, costs, command, commit and versions.
"""

import shlex
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import msgspec
from msgspec import Struct

from .command import Failure
from .files import read_json, read_lines, write_text
from .provenance import Record
from .scoring.metrics import METRICS, first_metric
from .scoring.scored import BLEU, Scored, read_scored
from .settings import normalised, read_present_settings
from .steps import read_stamp
from .training.log import Point, TrainLog, read_log, thinned

FORMAT = "fairseq_rope result 1"
"""The entry ``format``, which identifies a result file."""

REMEDY = "remove it, and run scripts/reproduce.sh again"

PLACES = {
    **{"--data": "DATA", "--out": "RUN", "--from": "FROM", "--run": "RUN", "--results": "RESULTS"},
    "--recipe": "{name}",
}
PREPARED = {
    **dict.fromkeys(("--train", "--valid", "--test", "--binarized", "--codes", "--like", "--add-tokens"), "RAW/{name}"),
    "--out": "DATA",
}
"""Options of train.sh and finetune.sh, and of prepare.sh, that name files, and what stands for them."""

POINTS = 150
"""The largest number of points in a training curve."""

TRANSLATIONS = 5


class Training(Struct):
    """Settings and costs of the training; None where they are not known."""

    parameters: int
    updates: int
    averaged: int
    devices: List[str]
    target_tokens_per_update: Optional[float] = None


class Result(Struct):
    """The entries of a result file that are read."""

    format: str
    recipe: str
    variant: str
    arch: str
    seed: int
    run: Record
    training: Training
    data: Dict[str, Any]
    curve: Dict[str, Dict[str, List[Any]]]  # "train" and "valid": "updates" and "nll" in bits
    tests: Dict[str, Scored]
    settings: str = ""
    unfinished: str = ""  # why there are no scores
    grid: List[Dict[str, float]] = []  # trainings of a fine-tuning: learning rate, seed, metrics
    pretrained: Dict[str, Union[int, str]] = {}  # the model before fine-tuning
    file: str = ""  # where it was read

    @property
    def name(self) -> str:
        return f"{self.arch} ({self.variant})" if self.variant else self.arch

    @property
    def wanted_updates(self) -> int:
        """How many updates the run may have, which may end earlier (``--patience``); if unknown, how many it has."""
        return int(self.run.max_update or self.training.updates)

    @property
    def starts_with(self) -> str:
        """The training of a recipe, ``RECIPE/ARCH``, that this one begins with; empty without one."""
        name = self.run.start.partition(", SHA-256")[0]
        return name if "/" in name else ""

    @property
    def summary(self) -> str:
        """The first metric of each test set."""
        metric = METRICS[key := first_metric(next(iter(self.tests.values())).scores)]
        scores = (f"{name} {test.scores[key]['score']:.2f}" for name, test in self.tests.items())
        return f"{metric.name} {', '.join(scores)}"

    def is_from(self, settings: str, max_update: int, average: int) -> bool:
        """Whether it is from a run with these settings, here or on another machine.

        Args:
            settings: the lines of RUN/settings; if the data are not prepared here, without their line.
            average: how many checkpoints the model is the mean of.
        """
        own = settings.splitlines()
        same = set(own) == {line for line in self.settings.splitlines() if line in own or not line.startswith("data ")}
        return same and self.training.averaged == average and self.wanted_updates == max_update


def read_result(path: Path) -> Result:
    """The content of a result file; raises Failure if it is damaged, inconsistent, or no result."""
    return _result(path, read_json(path, REMEDY))


def _result(path: Path, content: Any) -> Result:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Failure(f"{path} is no result file of version '{FORMAT}': {REMEDY}")
    try:
        result = msgspec.convert(content, Result, strict=False)  # in the record of the run, numbers are in quotes
    except msgspec.ValidationError as error:
        raise Failure(f"{path}: {error}: {REMEDY}") from None
    for name, test in result.tests.items():
        if reason := test.inconsistency:
            raise Failure(f"{path} {reason} (test set {name}): {REMEDY}")
    result.file, result.settings = str(path), normalised(result.settings)
    return result


def read_results(paths: Sequence[Path]) -> Tuple[List[Result], List[str], List[Tuple[Path, Any]]]:
    """Reads the named files and those in the named folders, each once and in the order of their names: the results, why
    others cannot be used, and all other JSON files, such as benchmarks."""
    files = [file for path in paths for file in (path.glob("*.json") if path.is_dir() else [path])]
    results, broken, others = [], [], []
    for file in sorted({file.resolve(): file for file in files}.values()):
        try:
            content = read_json(file, REMEDY)
            if isinstance(content, dict) and str(content.get("format")).startswith(FORMAT.rpartition(" ")[0]):
                results.append(_result(file, content))
            else:
                others.append((file, content))
        except Failure as error:
            broken.append(str(error))
    return results, broken, others


def without_folders(command: str, places: Mapping[str, str]) -> str:
    """A command without the folders of this machine: ``places`` has for each option what stands for each of its values,
    where ``{name}`` is their last part."""
    words, place = [], ""
    for word in shlex.split(command):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            place = places.get(name, "")
            if place and equals:
                word, place = f"{name}={place.format(name=Path(value).name)}", ""
        elif place:
            word = place.format(name=Path(word).name)
        words.append(word)
    return shlex.join(words)


def collect(
    run: Path,
    data: Path,
    recipe: str,
    subsets: Mapping[str, str],
    variant: str = "",
    unfinished: str = "",
    metric: str = BLEU,
    loss: str = "nll_loss",
) -> Dict[str, Any]:
    """The content of the result file of a run; without scores if it did not finish.

    Args:
        run: output of train.sh, average.sh and score.sh.
        data: output of prepare.sh, the training data.
        recipe: name of the recipe.
        subsets: fairseq's name of each test set (``test``, ``test1``) and of the validation set, to its real name.
        variant: tells the run from others of the same architecture.
        unfinished: the reason why the run has no scores; empty if it has.
        metric: a figure that each test set has; BLEU comes with statistics.
        loss: of the curves, as :func:`.training.log.read_log` takes it.
    """
    log, info = run / "train.log", read_json(run / "run.json", f"run scripts/train.sh --out {run} first")
    trained = read_log(log, bool(unfinished), loss) if log.is_file() else TrainLog()
    reason = " ".join(unfinished.replace(str(run), "RUN").replace(str(data), "DATA").split())
    return {
        "format": FORMAT,
        "recipe": recipe,
        "variant": variant,
        "arch": info["arch"],
        "seed": int(info["seed"]),
        "settings": read_present_settings(run, data),
        **({"unfinished": reason} if reason else {}),
        "run": {
            **info,
            "recipe": Path(info.get("recipe", recipe)).name,
            "command": without_folders(info["command"], PLACES),
        },
        "training": _training(trained, read_stamp(run, "average").get("averaged", 0)),
        "data": _data(data / "prepare.json"),
        "curve": {
            "train": _curve(thinned(trained.train, POINTS)),
            "valid": _curve(thinned(trained.valid, len(trained.valid) or 1)),
        },
        "tests": {} if unfinished else {name: _test(run, subset, metric) for subset, name in subsets.items()},
    }


def _training(log: TrainLog, averaged: int) -> Dict[str, Any]:
    """The settings and the costs of the training."""
    return {
        "parameters": log.parameters,
        "updates": log.updates,
        "target_tokens": log.tokens,
        "target_tokens_per_update": round(log.tokens / log.updates, 1) if log.updates else None,
        "target_tokens_per_second": round(log.rate) or None,
        "devices": log.devices,
        "averaged": averaged,
    }


def _curve(points: List[Point]) -> Dict[str, List[float]]:
    return {"updates": [point.updates for point in points], "nll": [round(point.nll, 4) for point in points]}


def _data(path: Path) -> Dict[str, Any]:
    """What ``prepare.json`` says of the data; empty if prepare.sh was older."""
    info = read_json(path) if path.is_file() else {}
    return info and {
        **{unit: info[unit] for unit in ("documents", "bytes", "tokens") if unit in info},
        "pairs": {name: info.get("pairs", {}).get(name) for name in ("train", "valid")},
        "kept": info.get("cleaned", {}).get("kept"),
        "merges": info.get("bpe", {}).get("merges"),
        "vocabulary": info.get("vocabulary"),
        "command": without_folders(info.get("command", ""), PREPARED),
    }


def _test(run: Path, subset: str, metric: str) -> Dict[str, Any]:
    """A test set, as score.sh or evaluate.sh left it."""
    scored = read_scored(run / f"scores/{subset}.json", "remove it and call again", metric)
    more = {"commit": scored.commit, "statistics": scored.statistics}
    return {
        "subset": subset,
        "sentences": scored.sentences,
        "settings": scored.settings,
        "scores": scored.scores,
        **{name: value for name, value in more.items() if value},
    }


def translations(run: Path, data: Path, subset: str) -> List[List[str]]:
    """Sources, translations and references of a few sentences of a test set, evenly spaced; empty without the files."""
    for output in run.glob(f"scores/{subset}.hyp.*"):
        raw = {file.suffix: file for file in (data / "raw").glob(f"{subset}.*") if file.suffix != ".json"}
        reference = raw.pop(output.suffix, None)
        if reference and raw:
            rows = [list(row) for row in zip(*map(read_lines, (*raw.values(), output, reference)))]
            return [rows[i * len(rows) // TRANSLATIONS] for i in range(min(TRANSLATIONS, len(rows)))]
    return []


def write_translations(rows: List[List[str]], path: Path) -> None:
    """Writes :func:`translations` as a table with tabs; the report shows it if it lies beside the result file."""
    cells = [["source", "translation", "reference"], *rows]
    write_text(path, "".join("\t".join(cell.replace("\t", " ") for cell in row) + "\n" for row in cells))
