"""What is printed after the scores of a recipe."""

from types import SimpleNamespace

import pytest

from pipeline.afterwards import afterwards
from pipeline.experiment import Experiment
from pipeline.files import write_text
from pipeline.recipes import load_recipe


@pytest.fixture
def experiment(tmp_path):
    """A run of the demo with seven sentences, of which one is long and one has an empty translation."""
    folder, data = tmp_path / "runs/demo/roformer_tiny/seed1", tmp_path / "runs/demo/data"
    sides = {"source": "It's sentence {}.", "translation": "Das ist Satz {}.", "reference": "Satz {}."}
    texts = {name: [text.format(i) for i in range(7)] for name, text in sides.items()}
    texts["source"][1], texts["translation"][2] = "many \x1b[31m words " * 9, ""
    files = [data / "raw/test.en", folder / "scores/test.hyp.de", data / "raw/test.de"]
    for path, lines in zip(files, texts.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(f"{line}\n" for line in lines))
    system = SimpleNamespace(title="roformer_tiny")
    subsets = {"test": "test", "valid": "valid"}
    return Experiment(load_recipe("demo"), system, 1, data, folder, tmp_path / "x.json", subsets)


def test_five_translations_beside_source_and_reference_and_commands_that_work_here(experiment, tmp_path, monkeypatch):
    write_text(tmp_path / ".venv/bin/activate", "")
    monkeypatch.setenv("VENV", str(tmp_path / ".venv"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.chdir(tmp_path)
    said = afterwards([experiment])
    samples, commands = said.split("To translate a sentence", 1)
    assert samples.startswith("Translations of test by roformer_tiny, seed 1:\n\n  source       It's sentence 0.\n")
    assert samples.count("  source  ") == samples.count("  translation  ") == samples.count("  reference  ") == 5
    assert "  translation  (empty)\n" in samples and "\x1b" not in samples and "Satz 5." in samples
    assert max(map(len, samples.splitlines())) <= 80
    run = "translate.sh runs/demo/roformer_tiny/seed1\n"
    assert """\n  echo 'It'"'"'s sentence 0.' | /""" in commands and commands.count(run) == 2
    assert commands.endswith("  source .venv/bin/activate")


def test_nothing_is_said_of_runs_from_elsewhere(experiment):
    (experiment.folder / "scores/test.hyp.de").unlink()
    assert afterwards([experiment]) == ""
