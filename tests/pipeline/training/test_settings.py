"""What tells runs apart: the settings of a training, and the flags that it refuses."""

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.settings import data_line
from pipeline.steps import stamp_path

from .trainings import training


def test_the_settings_are_two_lines_of_data_and_flags(data):
    """Results of other machines and times are found by them: the text never changes."""
    first = f"{data_line(data)}\n"
    assert training(data, "--", "--dropout", "0.3").settings == (
        f"{first}train --arch roformer_tiny --seed 1 --max-tokens 4096 --dropout 0.3 --save-interval-updates 1500\n"
    )
    assert training(data, "--target-tokens", 25000, "--save-every", 20).settings == (
        f"{first}train --arch roformer_tiny --seed 1 --save-interval-updates 20 target tokens 25000\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", 2),
        ("--save-every", 20),
        ("--device-tokens", 600),
        ("--target-tokens", 25000),
        ("--target-tokens", 50000),
        ("--processes", 2),  # an update has a batch of each
        ("--recipe", "demo"),
        ("--", "--lr", "1"),
    ],
)
def test_what_changes_the_model_changes_the_settings(data, options):
    assert training(data, *options).settings != training(data).settings


def test_more_updates_devices_and_memory_for_an_update_of_one_size_are_the_same_run(data):
    options = ["--target-tokens", 25000]
    same = [*options, "--max-update", 99, "--processes", 2, "--device-tokens", 600]
    assert training(data, *same).settings == training(data, *options).settings


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--encoder-embed-path", "--decoder-embed-path"])
def test_the_content_of_the_file_that_a_training_begins_with_is_a_setting(data, tmp_path, flag):
    seen, file = set(), tmp_path / "model.pt"
    for content in ("a", "b", "a"):
        file.write_text(content)
        seen.add(training(data, "--", flag, file).settings)
    assert len(seen) == 2
    with pytest.raises(Failure, match=f"nowhere: no such file for {flag}"):
        training(data, "--", f"{flag}=nowhere")


@pytest.mark.parametrize(
    ("scheduler", "flag", "depends"),
    [
        ("polynomial_decay", "", True),
        ("polynomial_decay", "--total-num-update 99", False),
        ("cosine", "", True),
        ("cosine", "--lr-period-updates 9", False),
        ("tri_stage", "--phase-ratio (0.1,0.4,0.5)", True),
        ("tri_stage", "--warmup-steps 4", False),
        ("inverse_sqrt", "", False),
        ("inverse_sqrt", "--wandb-project  --dropout 0.1", False),
    ],
)
def test_a_longer_training_is_another_one_if_its_learning_rates_differ_from_the_start(data, scheduler, flag, depends):
    short, long = (
        training(data, "--max-update", updates, "--", "--lr-scheduler", scheduler, *flag.split(" ")).settings
        for updates in (8, 9)
    )
    assert (short != long) == depends and (" max update 8" in short) == depends


def test_other_target_tokens_and_other_data_are_other_runs(data):
    before = [training(data, "--target-tokens", tokens).settings for tokens in (25000, 50000)]
    write_json(stamp_path(data, "binarize"), {"settings": "input y\n"})
    assert len({*before, training(data, "--target-tokens", 25000).settings}) == 3


@pytest.mark.parametrize("flag", ["--no-save-optimizer-state", "--lr-scheduler=reduce_lr_on_plateau"])
def test_flags_that_would_spoil_a_training_are_refused(data, flag):
    with pytest.raises(Failure, match=flag.split("=")[0]):
        training(data, "--", flag)


def test_a_batch_is_chosen_once(data):
    with pytest.raises(Failure, match="--target-tokens chooses the batch: leave it out, or --max-tokens"):
        training(data, "--target-tokens", 25000, "--", "--max-tokens", 4096)
