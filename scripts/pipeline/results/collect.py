"""Collects one run - one architecture, one seed, one recipe - in one small JSON file. It needs no fairseq.

::

    results.py --run RUN --data DATA --recipe NAME --subsets "test=NAME valid=NAME" --out NAME-ARCH-seedN.json [K=V ...]
    results.py ... --unfinished "killed at update 700 of 2,000"

RUN was trained, averaged and scored by the scripts, on DATA. The file has all that the report (``report.py``) needs:
scores with signatures, sacrebleu's statistics of each sentence, learning curves, costs, command, commit and versions.
Of a run that did not get so far it has what there is, and the reason, but no scores.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from ..files import read_json
from ..scoring.statistics import bleu, columns, rows
from ..training.log import LogError, Point, TrainLog, read_log, thinned
from .file import FORMAT, ResultError, read_results, write_result
from .positions import position_entry

PREPARED = r"(--train|--valid|--test|--out) ((?:\\.|\S)+)"
"""Options of prepare.sh that name files."""

POINTS = 150
"""Of a training curve, at most."""


def collect(
    run: Path, data: Path, recipe: str, subsets: Mapping[str, str], entries: Mapping[str, str], unfinished: str = ""
) -> Dict[str, Any]:
    """All that is to be known about a run.

    Args:
        run: output of train.sh, average.sh and score.sh.
        data: output of prepare.sh, on which it was trained.
        recipe: its name.
        subsets: fairseq's name of each test set (``test``, ``test1``) and of the validation set (``valid``), to the
            name by which people know it.
        entries: what else there is to say; ``variant`` keeps a run apart from others of the same architecture.
        unfinished: why the run did not get to its scores, if it did not.

    Raises:
        ResultError: something is missing; or nothing, of a run that is said to be unfinished.
    """
    info = _read_json(run / "run.json", f"run scripts/train.sh --out {run} first")
    missing = [key for key in ("arch", "seed", "command", "flags", "versions", "machine") if key not in info]
    if missing:
        raise ResultError(f"{run}/run.json lacks '{missing[0]}': run scripts/train.sh --out {run} again")
    log, averaged, tests = _what_there_is(run, subsets) if unfinished else _to_the_end(run, data, subsets)
    settings = run / "settings"
    info["command"] = re.sub(r"(--data|--out) (?:\\.|\S)+", _placeholder, info["command"])
    return {
        "format": FORMAT,
        "recipe": recipe,
        "variant": entries.get("variant", ""),
        "arch": info["arch"],
        "seed": int(info["seed"]),
        "settings": settings.read_text() if settings.is_file() else "",
        "entries": {key: value for key, value in entries.items() if key != "variant"},
        **({"unfinished": _reason(unfinished, run, data)} if unfinished else {}),
        "run": info,
        "training": {
            "parameters": log.parameters,
            "parameters_trained": log.trained,
            "updates": log.updates,
            "target_tokens": log.tokens,
            "target_tokens_per_update": round(log.tokens / log.updates, 1) if log.updates else None,
            "seconds": round(log.seconds),
            "target_tokens_per_second": round(log.tokens / log.seconds) if log.seconds else None,
            "processes": log.processes,
            "devices": log.devices,
            "averaged": averaged,
        },
        "data": _data(data),
        "curve": {
            "train": _curve(thinned(log.train, POINTS)),
            "valid": _curve(thinned(log.valid, len(log.valid) or 1)),
        },
        **({} if unfinished else position_entry(run)),
        "tests": tests,
    }


def _to_the_end(run: Path, data: Path, subsets: Mapping[str, str]) -> Tuple[TrainLog, int, Dict[str, Any]]:
    """Log, number of averaged checkpoints and tests of a finished run."""
    log_path = run / "train.log"
    if not log_path.is_file() or not (run / ".stamps/train").is_file():
        raise ResultError(f"{run} is not trained to the end: run scripts/train.sh --out {run} first")
    try:
        log = read_log(log_path)
    except LogError as error:
        raise ResultError(str(error)) from None
    averaged = _averaged(run)
    return log, averaged, {name: _test(run, data, subset) for subset, name in subsets.items()}


def _what_there_is(run: Path, subsets: Mapping[str, str]) -> Tuple[TrainLog, int, Dict[str, Any]]:
    """The same of a run that did not finish: perhaps an empty log, and no tests."""
    stamps = [run / ".stamps/train", run / ".stamps/average"]
    if all(path.is_file() for path in [*stamps, *(run / f"scores/{subset}.json" for subset in subsets)]):
        raise ResultError(f"{run} is trained, averaged and scored: leave out --unfinished")
    path = run / "train.log"
    log = read_log(path, may_be_empty=True) if path.is_file() else TrainLog()
    return log, _averaged(run) if stamps[1].is_file() else 0, {}


def _reason(text: str, run: Path, data: Path) -> str:
    """On one line, without the folders of this machine."""
    return " ".join(text.replace(str(run), "RUN").replace(str(data), "DATA").split())


def _raw(found: "re.Match[str]") -> str:
    """Of raw text the name counts, its folder does not."""
    return f"{found[1]} {'DATA' if found[1] == '--out' else 'RAW/' + Path(found[2]).name}"


def _placeholder(found: "re.Match[str]") -> str:
    """A folder of one machine means nothing elsewhere."""
    return f"{found[1]} {'DATA' if found[1] == '--data' else 'RUN'}"


def _read_json(path: Path, remedy: str) -> Dict[str, Any]:
    if not path.is_file():
        raise ResultError(f"{path} not found: {remedy}")
    try:
        return dict(read_json(path))
    except ValueError:
        raise ResultError(f"{path} is damaged: {remedy}") from None


def _averaged(run: Path) -> int:
    """How many checkpoints are in the averaged one, by the stamp of average.sh."""
    stamp = run / ".stamps/average"
    found = re.search(r"^average last (\d+)(?:.* inputs (.*) of )?", stamp.read_text()) if stamp.is_file() else None
    if not found:
        raise ResultError(f"{run} is not averaged: run scripts/average.sh --run {run} first")
    return int(found[1]) if found[2] in (None, "none") else len(found[2].split())


def _data(folder: Path) -> Dict[str, Any]:
    """Pairs, cleaning, merges and vocabulary by ``prepare.json``; empty where prepare.sh was older."""
    path = folder / "prepare.json"
    if not path.is_file():
        return {}
    info = _read_json(path, f"run scripts/prepare.sh --out {folder} again")
    pairs = info.get("pairs", {})
    return {
        "pairs": {name: pairs.get(name) for name in ("train", "valid")},
        "kept": info.get("cleaned", {}).get("kept"),
        "merges": info.get("bpe", {}).get("merges"),
        "vocabulary": info.get("vocabulary"),
        "command": re.sub(PREPARED, _raw, info.get("command", "")),
    }


def _curve(points: List[Point]) -> Dict[str, List[float]]:
    return {
        "updates": [point.updates for point in points],
        "seconds": [round(point.seconds) for point in points],
        "nll": [round(point.nll, 4) for point in points],
    }


def _test(run: Path, data: Path, subset: str) -> Dict[str, Any]:
    """Scores and statistics of one test set."""
    remedy = f"run scripts/score.sh --run {run} --data {data} --subset {subset} first"
    scored = _read_json(run / f"scores/{subset}.json", remedy)
    hypotheses = sorted((run / "scores").glob(f"{subset}.hyp.*"))
    if len(hypotheses) != 1:
        raise ResultError(f"{run}/scores has {len(hypotheses)} files {subset}.hyp.*, and should have 1: {remedy}")
    target = hypotheses[0].suffix
    raw = [path for path in sorted((data / "raw").glob(f"{subset}.*")) if path.suffix not in (".json", target)]
    reference = data / "raw" / f"{subset}{target}"
    if len(raw) != 1 or not reference.is_file():
        raise ResultError(f"{data}/raw lacks a side of {subset}: run scripts/prepare.sh --out {data} first")
    sides = [_lines(path) for path in (raw[0], hypotheses[0], reference)]
    if len({len(side) for side in sides}) != 1:
        raise ResultError(f"{hypotheses[0]} and {reference} differ in length: {remedy}")
    statistics = columns(*sides)
    stated, computed = scored["scores"]["sacrebleu"]["score"], bleu(rows(statistics))
    if abs(stated - computed) > 0.0051:  # what rounding can do
        raise ResultError(f"{run}/scores/{subset}.json says {stated} BLEU, its text has {computed:.2f}: {remedy}")
    settings = scored.get("settings", "")
    return {
        "subset": subset,
        "sentences": len(sides[0]),
        "settings": settings,
        "scores": scored["scores"],
        "statistics": statistics,
    }


def _lines(path: Path) -> List[str]:
    """Lines end at newlines only, as in the other tools."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines if lines[-1] else lines[:-1]


def _has_scores(path: Path) -> bool:
    """Whether a result file is that of a finished run, and not damaged."""
    try:
        return any(result["tests"] for _, result in read_results([path]))
    except ResultError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="trained, averaged and scored run")
    parser.add_argument("--data", type=Path, required=True, help="prepared data, on which it was trained")
    parser.add_argument("--recipe", required=True, help="name of the recipe")
    parser.add_argument("--subsets", default="test=test", help="SUBSET=NAME ...: the test sets (default: test=test)")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--unfinished", metavar="REASON", help="the run did not get to its scores, and why")
    parser.add_argument("entries", nargs="*", metavar="KEY=VALUE", help="further entries; variant=NAME keeps it apart")
    args = parser.parse_args()
    words = args.subsets.split()
    for word in [*words, *args.entries]:
        if not re.fullmatch(r"[^=]+=.+", word, re.DOTALL):
            parser.error(f"'{word}' is not of the form KEY=VALUE")
    if args.unfinished is not None and not args.unfinished.strip():
        parser.error("--unfinished must say why")
    try:
        subsets = dict(word.split("=", 1) for word in words)
        if not subsets or len(set(subsets.values())) < len(words):
            raise ResultError(f"--subsets '{args.subsets}' must name each test set, and each once")
        entries = dict(entry.split("=", 1) for entry in args.entries)
        if args.unfinished and args.out.is_file() and _has_scores(args.out):
            raise ResultError(f"{args.out} has the scores of a finished run: name another file as --out, or remove it")
        result = collect(args.run, args.data, args.recipe, subsets, entries, args.unfinished or "")
        write_result(result, args.out)
    except (ResultError, OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {error}")
    scores = ", ".join(f"{name} {test['scores']['sacrebleu']['score']:.2f}" for name, test in result["tests"].items())
    text = f"not finished: {result['unfinished']}" if args.unfinished else f"sacreBLEU {scores}"
    print(f"{args.out}: {result['arch']}, seed {result['seed']}: {text}")


if __name__ == "__main__":
    main()
