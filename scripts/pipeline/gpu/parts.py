"""What ``scripts/check_gpu.sh`` runs: the commands of every part, in full on a GPU or in small on a CPU."""

import argparse
import sys
from itertools import islice
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

from ..command import Failure
from ..corpus import text
from ..files import write_text
from ..paths import ROOT, SCRIPTS
from ..recipes import load_recipe
from ..systems import read_systems

TRAINED = ("multi30k", "mix")
"""Recipes, and parts of the same name."""

PARTS = ("tests", "train", "compile", "decode", "rope", "criterion", "families", *TRAINED)
GROUP = 2
"""How many families a benchmark measures beside fairseq's. It begins anew after a cut, and fails if one fails."""
TRAINING_LINES, LINES = 512, 16
"""How much of the training text, and of each other, a rehearsal takes."""

Command = List[str]


class Stage(NamedTuple):
    """Commands that run at the same time."""

    name: str
    commands: List[Command]
    outputs: List[Path]
    """Without them it is not done."""


class Scale(NamedTuple):
    """How large everything is."""

    device: str
    size: str
    """The size in the names of architectures; trainings have that of their recipe."""
    training: Sequence[str] = ()
    """Options of ``benchmark.sh train``, and likewise below."""
    decoding: Sequence[str] = ()
    rope: Sequence[str] = ()
    criterion: Sequence[str] = ()
    multi30k: Sequence[str] = ()
    """Options of ``reproduce.sh``, and likewise below."""
    mix: Sequence[str] = ()


FULL = Scale(
    "cuda",
    "base",
    training=("--tokens", "25000", "--repeats", "20"),
    decoding=("--sentences", "256", "64", "1"),
    rope=("--sentences", "893"),  # of 28 tokens
    criterion=("--tokens", "25000"),
    mix=("--device-tokens", "25000"),
)
_SMALL = ("--tokens", "200", "--vocabulary", "200", "--repeats", "2")
_SHORT = ("--max-update", "10", "--save-every", "2")
SMALL = Scale(
    "cpu",
    "tiny",
    training=_SMALL,
    decoding=("--sentences", "2", "1", "--length", "4", "--vocabulary", "200", "--repeats", "2"),
    rope=("--sentences", "2", "--repeats", "2"),
    criterion=_SMALL,
    multi30k=_SHORT,
    mix=("--device-tokens", "1000", *_SHORT),  # 25,000 need many small batches of a short text
)


def shortened(name: str, raw: Path, out: Path) -> Path:
    """The folder ``out``, with the first lines of a recipe's raw text.

    Raises:
        Failure: a file is missing or cannot be read.
    """
    recipe = load_recipe(name)
    for corpus in (recipe.train, recipe.valid, *recipe.tests):
        for lang in (recipe.source, recipe.target):
            most = TRAINING_LINES if corpus == recipe.train else LINES
            lines = islice(text.raw_file(text.find(str(raw / corpus), lang)), most)
            write_text(out / f"{corpus}.{lang}", "".join(f"{line}\n" for line in lines))
    return out


class Parts:
    """The stages of every part.

    Args:
        args: options of the command line.
        scale: :data:`FULL` or :data:`SMALL`.

    Raises:
        Failure: a folder with text is missing.
    """

    def __init__(self, args: argparse.Namespace, scale: Scale) -> None:
        self.args, self.scale = args, scale
        self.results: Path = args.out / "results"
        self.raw: Dict[str, Path] = {name: getattr(args, name).absolute() for name in TRAINED if getattr(args, name)}
        for name, folder in self.raw.items():
            if not folder.is_dir():
                raise Failure(f"{folder}: no such folder for --{name}")

    def stages(self, part: str) -> List[Stage]:
        """What a part runs, one stage after the other; nothing if it needs text that is not given."""
        if part in TRAINED:
            return self._training(part) if part in self.raw else []
        stages: List[Stage] = getattr(self, f"_{part}")()
        return stages

    def _tests(self) -> List[Stage]:
        return [Stage("tests", [[sys.executable, "-m", "pytest", "-m", "gpu", "-q", str(ROOT / "tests")]], [])]

    def _benchmark(self, what: str, name: str, *options: str) -> Stage:
        file = self.results / f"benchmark-{name}-{self.scale.device}.json"
        words = [what, "--device", self.scale.device, "--out", str(file), *options]
        return Stage(name, [[str(SCRIPTS / "benchmark.sh"), *words]], [file])

    def _steps(self, name: str, archs: Sequence[str], *options: str) -> Stage:
        systems = ["--baseline", "stock", "--archs", *archs, "--precision", "bf16"]
        small = ["--", "--encoder-layers", "1", "--decoder-layers", "1"] if self.scale is SMALL else []
        return self._benchmark("train", name, *systems, *self.scale.training, *options, *small)

    def _in_groups(self, name: str, archs: Sequence[str], *options: str) -> List[Stage]:
        groups = [archs[first : first + GROUP] for first in range(0, len(archs), GROUP)]
        return [self._steps(f"{name}-{number}", group, *options) for number, group in enumerate(groups, start=1)]

    def _train(self) -> List[Stage]:
        archs = [f"transformer_sinusoidal_{self.scale.size}", f"roformer_{self.scale.size}"]
        return [self._steps("train-bf16", archs, "--memory", "--profile")]

    def _compile(self) -> List[Stage]:
        return [self._steps("train-compiled", ["stock+compile", f"roformer_{self.scale.size}+compile"])]

    def _families(self) -> List[Stage]:
        """What the parts ``train`` and ``compile`` have not measured."""
        archs = [system.arch for system in read_systems([f"*_{self.scale.size}"], [], None)]
        compiled = [arch for arch in archs if arch != f"roformer_{self.scale.size}"]
        others = [arch for arch in compiled if arch != f"transformer_sinusoidal_{self.scale.size}"]
        return [
            *self._in_groups("train-families", others, "--memory", "--profile"),
            *self._in_groups("train-families-compiled", [f"{arch}+compile" for arch in compiled]),
        ]

    def _decode(self) -> List[Stage]:
        options = ["--archs", f"roformer_{self.scale.size}", "--profile", *self.scale.decoding]
        return [self._benchmark("decode", "decode", *options)]

    def _rope(self) -> List[Stage]:
        return [self._benchmark("rope", "rope", *self.scale.rope)]

    def _criterion(self) -> List[Stage]:
        return [self._benchmark("criterion", "criterion", *self.scale.criterion)]

    def _training(self, recipe: str) -> List[Stage]:
        """Trainings, as many at a time as ``--runs``; then the report on all of them."""
        rest = read_systems([f"*_{recipe}"], [], None) if recipe == "multi30k" else []
        archs = list(dict.fromkeys([*load_recipe(recipe).archs, *(system.arch for system in rest)]))
        if self.scale is SMALL:
            archs = ["roformer_tiny", "transformer_sinusoidal_tiny"]
        out, raw = self.args.out / recipe, self.raw[recipe]
        if self.scale is SMALL:
            raw = shortened(recipe, raw, self.args.out / "text" / recipe)
        options = ["--data", raw, "--out", out, "--results", self.results, "--report", out / "report"]
        script = [SCRIPTS / "reproduce.sh", recipe, *options, *getattr(self.scale, recipe)]

        def command(archs: Sequence[str], seeds: Sequence[int]) -> Command:
            return [str(word) for word in (*script, "--archs", *archs, "--seeds", *seeds)]

        seeds, runs = self.args.seeds, self.args.runs
        of_archs = [archs[first::runs] for first in range(min(runs, len(archs)))]
        divided = min(len(seeds), max(1, runs // len(archs)))
        shares = [command(some, seeds[first::divided]) for some in of_archs for first in range(divided)]
        return [Stage("trainings", shares, []), Stage("report", [command(archs, seeds)], [])]
