"""average.sh: a model folder that is whole, and made of the checkpoints as they are now."""

import json
import re
import shlex
import shutil

import pytest

from pipeline.command import Failure
from pipeline.files import sha256, write_json
from pipeline.settings import data_line
from pipeline.steps import stamp_path
from pipeline.training import average

from .test_checkpoints import checkpoint

FILES = ["bpecodes", "dict.de.txt", "dict.en.txt", "prepare.json", "vocabulary.en"]


@pytest.fixture
def run(tmp_path):
    """A run with two checkpoints, and its data beside it."""
    data, folder = tmp_path / "data", tmp_path / "run"
    (data / "bin").mkdir(parents=True)
    for name in ("bpecodes", "bin/dict.en.txt", "bin/dict.de.txt", "vocabulary.en"):
        (data / name).write_text(f"{name} 1\n")
    hashes = {path.name: sha256(path) for path in data.rglob("*") if path.is_file()}
    write_json(data / "prepare.json", {"hyphens": "split", "sha256": hashes})
    write_json(stamp_path(data, "binarize"), {"settings": "input x\n"})
    for updates in (2, 4):
        checkpoint(folder / "checkpoints", f"checkpoint_1_{updates}.pt", updates)
    (folder / "settings").write_text(f"{data_line(data)}\n")
    return folder


def averaged(run, *options):
    average.main(["--run", str(run), "--data", str(run.parent / "data"), "--last", "2", *options])
    return sorted(path.name for path in run.glob("[!.]*") if path.is_file())


def stamp(run):
    return json.loads(stamp_path(run, "average").read_text())


def test_checkpoints_of_the_same_names_with_other_content_are_averaged_anew(run, capsys):
    assert averaged(run) == sorted([*FILES, "README.md", "checkpoint.pt", "settings"])
    assert averaged(run) and "average: done before" in capsys.readouterr().err
    first = stamp(run)
    shutil.copy(run / "checkpoints/checkpoint_1_2.pt", run / "checkpoints/checkpoint_1_4.pt")
    averaged(run)
    assert "done before" not in capsys.readouterr().err and stamp(run)["settings"] != first["settings"]
    assert stamp(run)["averaged"] == 2


def test_as_many_are_averaged_as_the_recipe_of_the_training_says(run):
    made = ["--run", str(run), "--data", str(run.parent / "data")]
    with pytest.raises(Failure, match="5 are to be averaged: give --last 2"):
        average.main(made)
    for count in (1, 2):
        write_json(run / "run.json", {"average": str(count)})
        average.main(made)
        assert stamp(run)["averaged"] == count


def test_a_model_whose_checkpoints_were_removed_stays_one_of_as_many(run, capsys):
    """To free the disk; a test set that joins later is scored with it."""
    averaged(run)
    before = (run / "checkpoint.pt").read_bytes()
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    averaged(run)
    assert (run / "checkpoint.pt").read_bytes() == before and "done before" in capsys.readouterr().err
    with pytest.raises(Failure, match="1 are to be averaged"):
        averaged(run, "--last", "1")
    (run / "checkpoint.pt").write_bytes(before[:5])
    with pytest.raises(Failure, match="2 are to be averaged"):
        averaged(run)


def test_an_average_that_begins_before_half_of_the_training_is_named(run, capsys):
    checkpoint(run / "checkpoints", "checkpoint_1_6.pt", 6)
    averaged(run)
    assert "update" not in capsys.readouterr().err
    averaged(run, "--last", "3")
    assert "update 2 of 6" in (said := capsys.readouterr().err) and "--last 2" in said


def test_a_model_folder_with_missing_and_damaged_files_is_whole_again(run):
    averaged(run)
    before = {name: (run / name).read_bytes() for name in ("checkpoint.pt", *FILES)}
    for number, (name, content) in enumerate(before.items()):
        (run / name).unlink() if number % 2 else (run / name).write_bytes(content[:5])
        averaged(run)
        assert (run / name).read_bytes() == content


def test_the_command_in_the_card_of_a_model_names_its_folder_as_a_shell_reads_it(run):
    run = run.rename(run.with_name("my run"))
    averaged(run)
    command = re.search("Use: `(.*)`", (run / "README.md").read_text())[1]
    assert shlex.split(command)[-1] == run.name


def test_a_damaged_file_of_the_data_is_not_copied(run):
    (run.parent / "data/bin/dict.en.txt").write_text("half")
    with pytest.raises(Failure, match=r"data/bin/dict.en.txt is damaged: .*scripts/prepare"):
        averaged(run)
    assert not (run / "dict.en.txt").exists()
