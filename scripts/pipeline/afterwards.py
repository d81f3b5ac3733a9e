"""What a reader wants after the scores: some translations, and the next commands."""

import os
import shlex
import textwrap
from pathlib import Path
from typing import List, Sequence

from .experiment import Experiment
from .paths import SCRIPTS
from .results import translations

COLUMNS = 80


def afterwards(experiments: Sequence[Experiment]) -> str:
    """Sample translations of the first of these runs, and commands to try on it; empty if it ran elsewhere."""
    for experiment in experiments:
        samples = translations(experiment.folder, experiment.data, next(iter(experiment.subsets)))
        if samples:
            return "\n".join([*_samples(experiment, samples), "", *_commands(experiment.folder, samples[0][0])])
    return ""


def _samples(experiment: Experiment, samples: Sequence[Sequence[str]]) -> List[str]:
    test = next(iter(experiment.subsets.values()))
    lines = [f"Translations of {test} by {experiment.name}:"]
    for sample in samples:
        lines.append("")
        for name, text in zip(("source", "translation", "reference"), sample):
            text = "".join(letter for letter in text if letter.isprintable()) or "(empty)"
            lines += textwrap.wrap(text, COLUMNS, initial_indent=f"  {name:<13}", subsequent_indent=" " * 15)
    return lines


def _commands(run: Path, sentence: str) -> List[str]:
    translate, environment = f"{_shown(SCRIPTS / 'translate.sh')} {_shown(run)}", Path(os.environ.get("VENV", ""))
    lines = ["To translate a sentence, or what you type (Ctrl-D ends):"]
    lines += [f"  echo {shlex.quote(sentence)} | {translate}", f"  {translate}"]
    if (environment / "bin/activate").is_file() and os.environ.get("VIRTUAL_ENV") != str(environment):
        lines += ["To have fairseq-rope, fairseq-train and so on at hand:"]
        lines += [f"  source {_shown(environment / 'bin/activate')}"]
    return lines


def _shown(path: Path) -> str:
    """A path as the user would type it here."""
    path = Path(os.path.abspath(path))
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if here in path.parents else path))
