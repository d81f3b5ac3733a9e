"""What tells runs apart: the settings of a training, and the flags that it refuses."""

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.settings import SETTINGS, check_warmup, data_line, flags_in, read_present_settings
from pipeline.steps import stamp_path

from .trainings import training


def test_the_settings_are_two_lines_of_data_and_sorted_flags(data):
    """Results of other machines and times are found by them."""
    given = ["--", "--dropout", "0.3", "--lr=1"]
    first, second = training(data, "--recipe", "demo", "--save-every", 20, *given).settings.splitlines()
    assert first == data_line(data) and second.startswith("train --adam-betas (0.9, 0.98) --arch roformer_tiny --clip")
    assert " --dropout 0.3 --label-smoothing 0.1 --lr 1 --lr-scheduler " in second
    tokens = training(data, "--target-tokens", 25000).settings
    assert tokens.endswith(" --save-interval-updates 1500 target tokens 25000\n") and "--max-tokens" not in tokens


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", 2),
        ("--save-every", 20),
        ("--device-tokens", 600),
        ("--target-tokens", 25000),
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


def test_two_dictionaries_are_two_matrices_of_embeddings(data):
    assert "--share-all-embeddings" in training(data).flags
    (data / "bin/dict.de.txt").write_text("other 1\n")
    assert training(data).flags.keys() & {"--share-all-embeddings", "--share-decoder-input-output-embed"} == {
        "--share-decoder-input-output-embed"
    }


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--encoder-embed-path", "--decoder-embed-path"])
def test_the_content_of_the_file_that_a_training_begins_with_is_a_setting(data, tmp_path, flag):
    seen, file = set(), tmp_path / "model.pt"
    for content in ("a", "b", "a"):
        file.write_text(content)
        seen.add(training(data, "--", flag, file).settings)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("scheduler", "flag", "depends"),
    [
        ("polynomial_decay", "--total-num-update 99", False),
        ("cosine", "", True),
        ("cosine", "--lr-period-updates 9", False),
        ("tri_stage", "--phase-ratio (0.1,0.4,0.5)", True),
        ("tri_stage", "--warmup-steps 4", False),
        ("inverse_sqrt", "", False),
    ],
)
def test_a_longer_training_is_another_one_if_its_learning_rates_differ_from_the_start(data, scheduler, flag, depends):
    flags = ["--", "--lr-scheduler", scheduler, *flag.split()]
    short, long = (training(data, "--max-update", updates, *flags).settings for updates in (8, 9))
    assert (short != long) == depends and (" max update 8" in short) == depends


def test_a_rate_that_falls_to_0_does_so_by_the_last_update(data):
    falls = training(data, "--", "--lr-scheduler", "polynomial_decay")
    assert falls.flags["--total-num-update"] == ["8"]


def test_text_with_further_test_sets_makes_the_same_training(data):
    def line(*sets, known=""):
        settings = "".join(f"text en {each}\n" for each in sets) + "merges 8\n"
        write_json(stamp_path(data, "binarize"), {"settings": settings})
        return data_line(data, known)

    before = line("train 1", "valid 2", "test 3\nJSON 0")
    assert line("train 1", "valid 2", "test 3\nJSON 0", "test1 4\nJSON 0", "test2 5", known=before) == before
    assert line("train 1", "valid 2", "test 4", "test1 5", "test2 3\nJSON 0", known=before) == before
    assert line("train 1", "valid 3", "test 4", "test1 3\nJSON 0", known=before) != before


def test_a_result_has_the_line_of_the_data_that_were_scored(data):
    """So seeds from before and after a test set joined are averaged, and text of it that changed is scored again."""
    run, lines = training(data), []
    run.out.mkdir()
    for number, tests in enumerate(["t u", "t u v w", "t u x y"]):
        write_json(stamp_path(data, "binarize"), {"settings": f"input en-de a b c d {tests}\n"})
        if not number:
            (run.out / SETTINGS).write_text(run.settings)
        lines.append(read_present_settings(run.out, data))
        assert lines[-1].startswith(f"{data_line(data)}\ntrain ")
        assert run.settings_like(lines[-1]) == lines[-1] and run.settings == lines[0]
    assert run.settings_like(lines[1]) != lines[1]
    write_json(stamp_path(data, "binarize"), {"settings": "input en-de a b e f t u\n"})
    assert read_present_settings(run.out, data) == lines[0]


def test_flags_that_would_spoil_a_training_are_refused(data):
    own = ("--no-save-optimizer-state", "--seed=2", "--max-update", "--stop-time-hours=9")
    for flag in (*own, "--lr-scheduler=reduce_lr_on_plateau"):
        with pytest.raises(Failure, match=flag.split("=")[0]):
            training(data, "--", flag)


def test_a_batch_is_chosen_once(data):
    with pytest.raises(Failure, match="--target-tokens chooses the batch: leave it out, or --max-tokens"):
        training(data, "--target-tokens", 25000, "--", "--max-tokens", 4096)
    with pytest.raises(Failure, match="--device-tokens has no effect beside --max-tokens"):
        training(data, "--recipe", "demo", "--device-tokens", 600)


def test_a_precision_takes_the_place_of_the_recipes(data):
    words = training(data, "--recipe", "documents", "--", "--amp").settings.split()
    assert "--amp" in words and "--bf16" not in words


def test_a_language_model_has_no_target_tokens_not_those_of_its_recipe_either(data):
    recipe = data.parent / "lm.toml"
    recipe.write_text('extends = "lm_books"\n[train]\ntarget-tokens = 600\n')
    for options in (["lm_books", "--target-tokens", 600], [recipe]):
        with pytest.raises(Failure, match="target tokens are for translation: give `-- --max-tokens N"):
            training(data, "--recipe", *options, arch="roformer_lm_tiny")
    by_hand = training(data, "--recipe", recipe, "--", "--max-tokens", 512, arch="roformer_lm_tiny")
    assert "--max-tokens 512" in by_hand.settings and "target tokens" not in by_hand.settings


@pytest.mark.parametrize(
    "scheduler,warmup,told", [("polynomial_decay", 8, True), ("polynomial_decay", 7, False), ("inverse_sqrt", 9, False)]
)
def test_a_learning_rate_that_never_falls_is_told(capsys, scheduler, warmup, told):
    check_warmup(flags_in(["--lr-scheduler", scheduler, "--warmup-updates", str(warmup)]), 8)
    assert ("rises for 8 updates and training has 8: give fewer" in capsys.readouterr().err) == told
