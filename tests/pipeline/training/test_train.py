"""A training without its trainer: what tells runs apart, what goes on, what is moved aside."""

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.settings import SETTINGS, check_validation, data_line
from pipeline.steps import stamp_path
from pipeline.training import launch, train

from .test_batch_size import binarised
from .test_checkpoints import checkpoint

TEMPLATE = ["trainer", "{data}/bin", "--max-update", "{max_update}", "--arch", "{arch}", "--seed", "{seed}", "--"]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "bin").mkdir(parents=True)
    binarised(folder / "bin", "train", [4, 9, 30], [4, 8, 40])
    binarised(folder / "bin", "valid", [4, 9], [4, 35])
    write_json(stamp_path(folder, "binarize"), {"settings": "input x\n"})
    return folder


@pytest.fixture
def trainings(monkeypatch):
    """In the place of fairseq-train one that makes its last checkpoint; the updates that each began with."""
    begun = []

    def started(command, log, lock, total, label, smaller):
        folder = log.parent / "checkpoints"
        begun.append(train.checkpoints.reached(folder))
        for name in (f"checkpoint_1_{total}.pt", "checkpoint_last.pt"):
            checkpoint(folder, name, total)
        return 0

    monkeypatch.setattr(launch, "train", started)
    return begun


def training(data, *options, arch="roformer_tiny"):
    out = data.parent / "run"
    words = ["--data", str(data), "--arch", arch, "--out", str(out), "--max-update", "8", *map(str, options)]
    return train.Training(train.parse([*TEMPLATE, *words]))


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


@pytest.mark.parametrize("flag", ["--no-save-optimizer-state", "--lr-scheduler=reduce_lr_on_plateau"])
def test_flags_that_would_spoil_a_training_are_refused(data, flag):
    with pytest.raises(Failure, match=flag.split("=")[0]):
        training(data, "--", flag)


def test_a_batch_is_chosen_once(data):
    with pytest.raises(Failure, match="--target-tokens chooses the batch: leave it out, or --max-tokens"):
        training(data, "--target-tokens", 25000, "--", "--max-tokens", 4096)


def test_other_target_tokens_and_other_data_are_other_runs(data):
    before = [training(data, "--target-tokens", tokens).settings for tokens in (25000, 50000)]
    write_json(stamp_path(data, "binarize"), {"settings": "input y\n"})
    assert len({*before, training(data, "--target-tokens", 25000).settings}) == 3


def test_a_run_that_is_done_is_not_begun_and_one_of_fewer_updates_goes_on(data, trainings):
    training(data).run()
    training(data).run()
    assert trainings == [0]
    training(data, "--max-update", 20).run()
    assert trainings == [0, 8]


def test_a_run_killed_behind_its_last_update_makes_none_more(data, trainings):
    training(data).run()
    stamp_path(data.parent / "run", "train").unlink()  # which the kill kept it from writing
    training(data).run()
    assert trainings == [0]


def test_a_run_killed_before_its_last_checkpoint_had_its_name_gets_that_and_no_more(data, trainings):
    run = training(data)
    checkpoint(run.folder, "checkpoint_1_6.pt", 6)
    checkpoint(run.folder, "checkpoint_last.pt", 8)
    (run.out / SETTINGS).write_text(run.settings)
    training(data).run()
    assert trainings == [] and (run.folder / "checkpoint_0_8.pt").is_file()


def test_a_killed_run_goes_on(data, trainings):
    run = training(data)
    for name in ("checkpoint_1_6.pt", "checkpoint_last.pt"):
        checkpoint(run.folder, name, 6)
    (run.out / SETTINGS).write_text(run.settings)
    training(data).run()
    assert trainings == [6] and not list(run.out.parent.glob("run.old-*"))


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


def test_a_run_with_other_settings_is_moved_aside_and_begun_anew(data, trainings):
    first = training(data)
    first.run()
    training(data, "--", "--dropout", "0.3").run()
    assert trainings == [0, 0]
    (old,) = data.parent.glob("run.old-*")
    assert (old / SETTINGS).read_text() == first.settings and (old / "checkpoints/checkpoint_1_8.pt").is_file()
    assert "--dropout 0.3" in (first.out / SETTINGS).read_text()


def test_a_validation_set_smaller_than_a_batch_is_refused_with_the_remedy(data, trainings):
    write_json(data / "raw/valid.json", {"pairs": 5})
    with pytest.raises(Failure, match=r"the validation set has 5 pairs, and fairseq-train needs 8: .*-multiple 5`"):
        training(data).run()
    assert trainings == [] and not (data.parent / "run").exists()
    for flags in (
        ["--required-batch-size-multiple=5"],
        ["--required-batch-size-multiple", "1"],
        ["--disable-validation"],
    ):
        check_validation(data, flags)
    for wrong in ([], {}, {"pairs": "many"}):
        write_json(data / "raw/valid.json", wrong)
        with pytest.raises(Failure, match=r"valid\.json .*: run scripts/prepare\.sh --out .* again"):
            check_validation(data, [])
    write_json(data / "raw/valid.json", {"pairs": 8})
    training(data).run()
    assert trainings == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-update", 200), "200 updates with a checkpoint every 50 make 4 checkpoints, but 5 are to be averaged"),
        (("--max-update", 200), "averaged: choose --save-every 40 or less"),
        (("--max-update", 40), "make 1 checkpoint, but 5 are to be averaged: choose --save-every 8 or less"),
        (("--max-update", 3, "--save-every", 1), "make 3 checkpoints, but 5 are to be averaged: choose --max-update 5"),
    ],
)
def test_fewer_checkpoints_than_the_recipe_averages_are_refused_before_the_training(data, trainings, options, message):
    with pytest.raises(Failure) as refused:
        training(data, "--recipe", "demo", *options).run()
    assert message in str(refused.value) and trainings == [] and not (data.parent / "run").exists()


@pytest.mark.parametrize("options", [("--max-update", 201), ("--max-update", 200, "--save-every", 40)])
def test_the_last_update_makes_a_checkpoint_to_average(data, trainings, options):
    training(data, "--recipe", "demo", *options).run()
    assert trainings == [0]


def test_without_a_recipe_too_few_checkpoints_are_said(data, trainings, capsys):
    training(data).run()
    said = "1 checkpoint, but 5 are to be averaged: choose --save-every 1 or less, or call average.sh with --last 1\n"
    assert said in capsys.readouterr().err and trainings == [0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--drpout", "0.3"], r"^fairseq-train: unrecognized arguments: --drpout 0\.3: correct .* or what follows --$"),
        (["--lr", "big"], r"^fairseq-train: argument --lr: .*'big'"),
        (["--encoder-position", "rotten"], "^fairseq-train: argument --encoder-position: invalid choice: 'rotten'"),
        (["--rope-base", "0.5"], "^fairseq-train: --rope-base must be greater than 1 and at most"),
        (["--shaw-clip", "3"], "^fairseq-train: --shaw-clip belongs to the encoding shaw, which neither side uses"),
        (["--encoder-embed-dim", "30"], "^fairseq-train: --encoder-embed-dim 30 must be divisible by --encoder-att"),
        (["--fp16", "--tpu"], "^fairseq-train: Cannot combine --fp16 and --tpu"),
        (["--max-tokens", "5"], "^a sentence of the validation set has 35 tokens, but a batch has 5 at most: give"),
        (
            ["--max-tokens", "3", "--max-tokens-valid", "99"],
            "^--max-tokens 3 is too small for every training pair: the longer sides have 4 to 40 tokens: give 40 or",
        ),
    ],
)
def test_options_that_fairseq_train_would_refuse_are_refused_before_anything_is_written(
    data, trainings, monkeypatch, flags, message
):
    monkeypatch.setattr("sys.argv", ["train", "--user-dir", "{user_dir}"])  # as the script's command has it
    training(data).run()
    before = sorted(data.parent.rglob("*"))
    with pytest.raises(Failure, match=message):
        training(data, "--", *flags).run()
    assert sorted(data.parent.rglob("*")) == before and trainings == [0]


def test_pairs_that_fairseq_train_leaves_out_are_counted(data, trainings, capsys):
    training(data, "--", "--max-tokens", "36").run()
    said = "fairseq-train leaves out 1 of 3 training pairs, which have up to 40 tokens on a side: --max-tokens is 36\n"
    assert said in capsys.readouterr().err and trainings == [0]


def test_options_of_fairseq_train_are_told_their_place(data, capsys):
    with pytest.raises(SystemExit):
        training(data, "--lr", "1")
    assert "error: unrecognized arguments: --lr 1: options of fairseq-train follow -- (see " in capsys.readouterr().err


def test_a_run_of_more_updates_is_refused_and_stays(data, trainings):
    training(data).run()
    with pytest.raises(Failure, match="was trained for 8 updates already"):
        training(data, "--max-update", 4).run()
    assert trainings == [0] and not list(data.parent.glob("run.old-*"))


@pytest.mark.parametrize("flags", [["--adaptive-softmax-cutoff", "10,20"], ["--encoder-ffn-embed-dim", "-1"]])
def test_what_only_the_training_can_tell_is_left_to_it(data, trainings, flags):
    training(data, "--", *flags).run()
    assert trainings == [0]
