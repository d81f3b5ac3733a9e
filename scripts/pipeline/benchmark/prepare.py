"""scripts/prepare.sh against a plain chain of the libraries' own commands, which makes the same files."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

from ..command import Failure
from ..corpus.cleaning import clean
from ..paths import ROOT
from ..steps import stamp_path
from .enlarge import enlarge
from .output import Result
from .timing import digits, interleaved, spread

REPEATS = 3
DEMO = ROOT / "data/demo"
OURS, PLAIN = "prepare.sh", "plain chain"
STEPS = ("copy", "tokenize", "learn-bpe", "apply-bpe", "clean", "binarize")
SUBSETS, LANGUAGES = ("train", "valid", "test"), ("en", "de")
FILES = [f"{subset}.{lang}" for subset in SUBSETS for lang in LANGUAGES]
RATIO = "3"  # of lengths in the demo corpus's short sentences

Times = Dict[str, float]
"""Name of a step, to seconds."""


def call(*words: Any, source: Any = None, target: Any = None) -> None:
    """Runs a command, as a filter from one file to another if these are given.

    Raises:
        Failure: the command fails.
    """
    venv = os.environ.get("VENV", sys.prefix)
    path = f"{venv}/bin{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "VENV": venv, "PYTHONWARNINGS": "ignore", "LOGLEVEL": "WARNING"}
    with open(source or os.devnull, "rb") as stdin, open(target or os.devnull, "wb") as stdout:
        command = [str(word) for word in words]
        done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment)
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
        raise Failure(f"{command[0]} failed: {reason}")


def ours(corpus: Path, out: Path, merges: int) -> Times:
    """Runs ``prepare.sh``; returns the time of each step, from the stamps that it leaves."""
    start = time.time()
    sets = [word for subset in SUBSETS for word in (f"--{subset}", corpus / subset)]
    call(ROOT / "scripts/prepare.sh", *sets, "--merges", merges, "--ratio", RATIO, "--out", out)
    ends = [start, *(stamp_path(out, step).stat().st_mtime for step in STEPS)]
    return {step: end - begin for step, begin, end in zip(STEPS, ends, ends[1:])}


def plain(corpus: Path, out: Path, merges: int) -> Times:
    """Runs the commands of sacremoses, subword-nmt and fairseq, one process each, and this project's cleaning."""
    raw, tok, bpe = (out / name for name in ("raw", "tok", "bpe"))
    codes, ends = out / "bpecodes", [time.time()]
    for folder in (raw, tok, bpe):
        folder.mkdir(parents=True)
    for file in FILES:
        shutil.copy(corpus / file, raw / file)
    ends.append(time.time())
    for file in FILES:
        moses = ["sacremoses", "-q", "-l", file[-2:], "-j", "1", "normalize", "-c", "tokenize", "-a"]
        call(*moses, source=raw / file, target=tok / file)
    ends.append(time.time())
    sides = [tok / f"train.{lang}" for lang in LANGUAGES]
    vocabularies = [out / f"vocabulary.{lang}" for lang in LANGUAGES]
    learn = ["subword-nmt", "learn-joint-bpe-and-vocab", "-s", merges, "-o", codes, "--input", *sides]
    call(*learn, "--write-vocabulary", *vocabularies)
    ends.append(time.time())
    for file in FILES:
        call("subword-nmt", "apply-bpe", "--codes", codes, source=tok / file, target=bpe / file)
    ends.append(time.time())
    clean(str(bpe / "train"), str(bpe / "train.clean"), LANGUAGES, 1, 250, float(RATIO))
    ends.append(time.time())
    prefixes = ["--trainpref", bpe / "train.clean", "--validpref", bpe / "valid", "--testpref", bpe / "test"]
    pair = ["--source-lang", "en", "--target-lang", "de", "--joined-dictionary"]
    call("fairseq-preprocess", *pair, *prefixes, "--destdir", out / "bin", "--workers", 1)
    ends.append(time.time())
    return {step: end - begin for step, begin, end in zip(STEPS, ends, ends[1:])}


def same_files(ours: Path, plain: Path) -> bool:
    """Whether the binarised data in two folders are the same, byte by byte."""
    names = [path.name for path in (plain / "bin").iterdir() if path.suffix in (".bin", ".idx", ".txt")]
    return bool(names) and all((plain / "bin" / n).read_bytes() == (ours / "bin" / n).read_bytes() for n in names)


def make_corpus(prefix: str, pairs: int, folder: Path) -> int:
    """Copies the demo corpus to ``folder``, with ``prefix`` or an enlarged copy as training text; returns its pairs."""
    folder.mkdir()
    for file in FILES[len(LANGUAGES) :]:
        shutil.copy(DEMO / file, folder / file)
    with (DEMO / "train.en").open("rb") as lines:
        copies = 1 if prefix else -(-pairs // sum(1 for _ in lines))
    counts = [enlarge(prefix or str(DEMO / "train"), str(folder / "train"), lang, copies, 20) for lang in LANGUAGES]
    if min(counts) < 1 or counts[0] != counts[1]:
        raise Failure(f"--corpus {prefix}: {counts[0]} and {counts[1]} lines: the two sides must be aligned")
    return counts[0]


def run(args: argparse.Namespace) -> Result:
    """Measures the whole preparation and its steps."""
    if min(args.pairs, args.merges) < 1:
        raise Failure("--pairs and --merges must be at least 1")
    times: Dict[str, List[Times]] = {OURS: [], PLAIN: []}
    with tempfile.TemporaryDirectory(prefix="benchmark.") as temporary:
        folder = Path(temporary)
        pairs = make_corpus(args.corpus, args.pairs, folder / "corpus")
        outs = {OURS: folder / "ours", PLAIN: folder / "plain"}

        def chain(name: str) -> None:
            shutil.rmtree(outs[name], ignore_errors=True)
            times[name].append((ours if name == OURS else plain)(folder / "corpus", outs[name], args.merges))

        chains = {OURS: lambda: chain(OURS), PLAIN: lambda: chain(PLAIN)}
        total = interleaved(chains, args.repeats, args.device, warm_up=0)
        same = same_files(outs[OURS], outs[PLAIN])
    rows: List[Dict[str, Any]] = []
    for step in ("all", *STEPS):
        seconds = {name: total[name] if step == "all" else [t[step] for t in times[name]] for name in times}
        row: Dict[str, Any] = {"step": step}
        row.update({f"{name} (s)": digits(statistics.median(values), 3) for name, values in seconds.items()})
        low, middle, high = spread([b / a for a, b in zip(seconds[OURS], seconds[PLAIN])])
        rows.append({**row, "times as fast": middle, "quartiles": f"{low} to {high}"})
    return {
        "what": "scripts/prepare.sh, times as fast as the plain chain of the libraries' own commands",
        "corpus": args.corpus or "demo, enlarged",
        "pairs": pairs,
        "merges": args.merges,
        "same files": same,
        "repeats": args.repeats,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark prepare``."""
    parser.add_argument("--corpus", default="", metavar="PREFIX", help="training text: PREFIX.en, PREFIX.de")
    parser.add_argument(
        "--pairs",
        type=int,
        default=50000,
        help="pairs of the enlarged demo corpus, if there is no --corpus (default: 50000)",
    )
    parser.add_argument("--merges", type=int, default=8000, help="BPE merges (default: 8000)")
