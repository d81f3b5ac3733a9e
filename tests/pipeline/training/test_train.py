"""A training without its trainer: what is refused, what goes on, what is moved aside."""

from functools import partial

import pytest
import torch

from fairseq_rope import products
from pipeline.command import Failure
from pipeline.files import read_json, write_json
from pipeline.lock import locked
from pipeline.settings import SETTINGS, check_data
from pipeline.steps import stamp_path
from pipeline.training import train

from .test_checkpoints import checkpoint
from .trainings import training


def test_a_run_that_is_done_is_not_begun_and_one_of_fewer_updates_goes_on(data, trainings):
    training(data).run()
    training(data).run()
    assert trainings == [0]
    stamp_path(data.parent / "run", "train").unlink()  # as a kill behind the last update leaves it
    training(data).run()
    assert trainings == [0]
    training(data, "--max-update", 20).run()
    assert trainings == [0, 8]


def test_a_run_goes_on_if_a_test_set_has_joined_the_data_and_begins_anew_with_another_training_set(data, trainings):
    def prepared(*sets):
        write_json(stamp_path(data, "binarize"), {"settings": f"input en-de {' '.join(sets)}\nmerges 8\n"})

    prepared("train1", "train2", "valid1", "valid2", "test1", "test2", "third1", "third2")
    training(data).run()
    prepared("train1", "train2", "valid1", "valid2", "test1", "test2", "news1", "news2", "third1", "third2")
    training(data, "--max-update", 20).run()
    check_data(data.parent / "run", data)
    prepared("train1", "train2", "valid1", "valid2", "news1", "news2")
    with pytest.raises(Failure, match="other data"):
        check_data(data.parent / "run", data)
    prepared("train3", "train2", "valid1", "valid2", "test1", "test2", "third1", "third2")
    training(data, "--max-update", 30).run()
    assert trainings == [0, 8, 0]


def test_a_longer_training_of_a_run_whose_checkpoints_were_removed_is_told_to_begin_anew(data, trainings, capsys):
    """To free the disk, after average.sh."""
    run = training(data)
    run.run()
    checkpoint(run.out, "checkpoint.pt", 8)
    training(data, "--max-update", 20).run()
    assert "begins anew" not in capsys.readouterr().err
    for path in run.folder.iterdir():
        path.unlink()
    training(data, "--max-update", 30).run()
    assert trainings == [0, 8, 0] and "begins anew" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU rounds in its own way")
def test_a_run_goes_on_with_the_library_of_its_record_unless_one_is_required(data, trainings, variables, monkeypatch):
    monkeypatch.delenv(products.VARIABLE, raising=False)
    monkeypatch.setattr(products, "library", lambda: products.BLAS)
    training(data).run()
    record = data.parent / "run/run.json"
    assert read_json(record)["products"] == products.BLAS
    write_json(record, {**read_json(record), "products": products.ONEDNN})
    training(data, "--max-update", 20).run()
    monkeypatch.setenv(products.VARIABLE, products.BLAS)
    training(data, "--max-update", 30).run()
    told = [given.get(products.VARIABLE) for given in variables]
    assert told == [products.BLAS, products.ONEDNN, products.BLAS]


def test_a_run_killed_before_its_last_checkpoint_had_its_name_gets_that_and_no_more(data, trainings):
    run = training(data)
    checkpoint(run.folder, "checkpoint_1_6.pt", 6)
    checkpoint(run.folder, "checkpoint_last.pt", 8)
    (run.out / SETTINGS).write_text(run.settings)
    training(data).run()
    assert trainings == [] and (run.folder / "checkpoint_0_8.pt").is_file()


def test_a_run_with_other_settings_is_moved_aside_and_begun_anew(data, trainings):
    first = training(data)
    first.run()
    training(data, "--", "--dropout", "0.3").run()
    assert trainings == [0, 0]
    (old,) = data.parent.glob("run.old-*")
    assert (old / SETTINGS).read_text() == first.settings and (old / "checkpoints/checkpoint_1_8.pt").is_file()
    assert "--dropout 0.3" in (first.out / SETTINGS).read_text()


def test_a_recipe_that_begins_with_a_run_needs_one(data):
    with pytest.raises(Failure, match="begins with a run of"):
        training(data, "--recipe", "multi30k_cpu_swap")
    with pytest.raises(Failure, match="no such checkpoint for --from"):
        training(data, "--recipe", "multi30k_cpu_swap", "--from", data).run()


def test_a_training_says_if_the_run_with_which_it_begins_was_trained_on_since_it_was_averaged(data, tmp_path, capsys):
    checkpoint(tmp_path, "checkpoint.pt", 8)
    checkpoint(tmp_path / "checkpoints", "checkpoint_1_16.pt", 16)
    for updates, warned in ((16, False), (8, True)):
        write_json(stamp_path(tmp_path, "average"), {"settings": f"average checkpoint_1_{updates}.pt"})
        with pytest.raises(Failure):  # of such a checkpoint, later
            training(data, "--from", tmp_path).run()
        assert ("scripts/average.sh" in capsys.readouterr().err) == warned


def test_a_run_has_the_name_of_the_training_in_its_recipe_only_if_it_begins_with_that(data, tmp_path):
    name = "multi30k_cpu/transformer_sinusoidal_multi30k"
    for folder, known in (
        ("transformer_sinusoidal_multi30k/seed1", name),
        ("roformer_multi30k/seed1", "checkpoint.pt"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        assert training(data, "--recipe", "multi30k_cpu_swap", "--from", tmp_path / folder).beginning == known


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--drpout", "0.3"], r"--drpout 0\.3"),
        (["--shaw-clip", "3"], "--shaw-clip belongs to the encoding shaw"),
        (["--amp", "--bf16"], "--amp and --bf16"),
    ],
)
def test_what_fairseq_train_would_refuse_is_refused_before_anything_is_written(data, trainings, flags, message):
    training(data).run()
    before = sorted(data.parent.rglob("*"))
    with pytest.raises(Failure, match=message):
        training(data, "--", *flags).run()
    with pytest.raises(Failure, match="was trained for 8 updates already"):
        training(data, "--max-update", 4).run()
    assert sorted(data.parent.rglob("*")) == before and trainings == [0]


def test_a_training_has_as_many_checkpoints_as_its_recipe_averages(data, trainings):
    """The last update makes one, too."""
    for options in (("--max-update", 200), ("--max-update", 3, "--save-every", 1)):
        with pytest.raises(Failure, match="but 5 are to be averaged"):
            training(data, "--recipe", "demo", *options).run()
    assert trainings == [] and not (data.parent / "run").exists()
    training(data, "--recipe", "demo", "--max-update", 201).run()
    assert trainings == [0]


def test_a_run_of_version_0_2_goes_on(data, trainings):
    """Its settings have the flags in the order of a command, in which the last one counts."""
    training(data).run()
    file = data.parent / "run" / SETTINGS
    first, second = file.read_text().splitlines()
    flags, end = second.removeprefix("train ").split(" --save-interval")
    old = " ".join(["--lr 9", *(f"--{flag}" for flag in reversed(flags.removeprefix("--").split(" --")))])
    file.write_text(f"{first}\ntrain {old} --save-interval{end}\n")
    training(data, "--max-update", 20).run()
    assert trainings == [0, 8] and not list(data.parent.glob("run.old-*"))


def test_a_run_whose_worker_outlives_a_killed_call_is_not_moved(data, trainings, monkeypatch):
    first = training(data)
    first.run()
    monkeypatch.setattr(train, "locked", partial(locked, wait=0))
    with locked(first.folder), pytest.raises(Failure, match=f"another command works in {first.folder}: wait for it"):
        training(data, "--", "--dropout", "0.3").run()
    assert (first.out / SETTINGS).read_text() == first.settings and not list(data.parent.glob("run.old-*"))
