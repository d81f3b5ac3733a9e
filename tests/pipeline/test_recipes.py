"""Recipes: from scripts/recipes or from anywhere, with data or without."""

import re
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.experiment import walk
from pipeline.files import sha256
from pipeline.paths import ROOT
from pipeline.recipes import FOLDER, load_recipe, recipe_names
from pipeline.reproduce import parse
from pipeline.results import read_result
from pipeline.sweep import Sweep

TEXT = 'train = "train"\nvalid = "valid"\ntests = ["test"]\n'
OWN = f'extends = "translation"\narchs = ["roformer_tiny"]\n[data]\n{TEXT}'
MASKED = 'extends = "masked_lm"\narchs = ["roformer_mlm_tiny"]\n'
TRAINED = [name for name in recipe_names() if load_recipe(name).shares]


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine"):
        path = tmp_path / f"{name}.toml"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text.encode())
        return str(path)

    return write


@pytest.mark.parametrize("name", TRAINED)
def test_fairseq_reads_the_flags_of_every_recipe_and_those_of_the_parts_that_it_chooses(name):
    assert load_recipe(str(FOLDER / f"{name}.toml")) == load_recipe(name)
    Sweep(parse([name, "--", "--weight-decay", "0.1", "--adam-eps", "1e-6"]))


def test_the_manuals_recipe_trains(write):
    page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    recipe = Sweep(parse([write(text)])).recipe
    assert recipe.data.join == [2, 4] and "--patience" not in recipe.flags


def test_a_recipe_is_merged_key_by_key_and_false_leaves_a_flag_out(write):
    base = load_recipe("multi30k")
    recipe = load_recipe(
        write('extends = "multi30k"\n[train]\nlr = 1e-3\ndropout = false\nbf16 = true\n[score]\nbeam = 5')
    )
    assert recipe.flags == {**{k: v for k, v in base.flags.items() if k != "--dropout"}, "--lr": ["1e-3"], "--bf16": []}
    assert recipe.flags["--adam-betas"] == ["(0.9, 0.98)"] and recipe.score.search == ["--beam", "5", "--lenpen", "0.6"]
    assert (recipe.data, recipe.shares, recipe.archs) == (base.data, "multi30k", base.archs)
    glue, tuned = load_recipe("glue").grid, load_recipe(write('extends = "glue"\n[grid]\nlr = ["1e-5"]', "tuned")).grid
    assert (tuned.lr, tuned.seed) == (["1e-5"], glue.seed)


def test_a_recipe_from_elsewhere_finds_its_text_in_its_own_folder(write, tmp_path):
    path = write(OWN)
    recipe = load_recipe(path)
    assert (recipe.name, recipe.shares, recipe.raw, recipe.option) == ("mine", "mine", tmp_path, path)
    sweep = Sweep(parse([path]))
    assert sweep.raw == tmp_path and sweep.out == ROOT / "runs/mine"
    assert sweep.experiments[0].training().recipe == recipe


def test_the_path_of_a_recipe_starts_at_the_current_folder_and_extends_at_the_file(write, monkeypatch, tmp_path):
    write(f"{OWN}[score]\naverage = 3\nbeam = 2", "shared/base")
    write('extends = "shared/base.toml"\n[score]\naverage = 4', "mine")
    write('extends = "../mine.toml"\n[train]\nmax-update = 7', "further/yours")
    monkeypatch.chdir(tmp_path / "further")
    recipe = load_recipe("yours.toml")
    assert (recipe.score.average, recipe.score.beam, recipe.train["max-update"], recipe.shares) == (4, 2, 7, "base")
    assert recipe.raw == tmp_path / "shared" and recipe.option == str(tmp_path / "further/yours.toml")


def test_a_recipe_begins_with_runs_of_a_recipe_that_it_finds_from_its_own_folder(write, monkeypatch, tmp_path):
    base = write(OWN, "texts/base")
    swap = write('extends = "base.toml"\nfrom = "base.toml/roformer_tiny"', "texts/swap")
    monkeypatch.chdir(tmp_path)
    first = Path("out/roformer_tiny/seed1/checkpoint.pt")
    first.parent.mkdir(parents=True)
    first.touch()
    assert load_recipe(swap).start == f"{base}/roformer_tiny"
    training = Sweep(parse(["texts/swap.toml", "--out", "out"])).experiments[0].training()
    assert (training.start, training.beginning) == (first, "base/roformer_tiny")
    assert training.settings.splitlines()[-1] == f"from {sha256(first)}"
    with pytest.raises(Failure, match=rf"has no averaged run.*{base} --archs roformer_tiny --seeds 1"):
        Sweep(parse(["texts/swap.toml", "--out", "elsewhere"])).check_inputs()
    of_variant = write('extends = "base.toml"\nfrom = "base.toml/roformer_tiny-half"', "texts/variant")
    with pytest.raises(Failure, match=r"has no averaged run.*--archs '' --variant 'half roformer_tiny FLAGS'"):
        Sweep(parse([of_variant, "--out", "elsewhere"])).check_inputs()
    with pytest.raises(Failure, match="'from' is RECIPE/ARCH"):
        load_recipe(write('extends = "base.toml"\nfrom = "multi30k/roformer_tiny"', "texts/swap"))


def test_each_seed_begins_with_the_run_of_the_same_seed(write, monkeypatch, tmp_path):
    write(OWN, "texts/base")
    write('extends = "base.toml"\nfrom = "base.toml/roformer_tiny"', "texts/swap")
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        (first := Path(f"out/roformer_tiny/seed{seed}/checkpoint.pt")).parent.mkdir(parents=True)
        first.touch()
    made = Sweep(parse(["texts/swap.toml", "--out", "out", "--seeds", "1", "2"])).experiments
    runs = [experiment.training() for experiment in made]
    assert [(run.args.seed, run.start.parent.name) for run in runs] == [(1, "seed1"), (2, "seed2")]


def test_blocks_of_documents_are_test_sets_behind_the_others():
    sizes = {f"test{number}": f"test-{size}" for number, size in enumerate((128, 256, 512, 1024, 2048), start=1)}
    assert Sweep(parse(["documents"])).subsets == {"test": "test", **sizes, "valid": "valid"}


@pytest.mark.parametrize(
    ("name", "lr", "epsilon", "updates", "save_every", "average"),
    [
        ("wmt14_en_de", "5e-4", None, 100000, 1500, 5),
        ("wmt14_en_de_big", "5e-4", None, 300000, 600, 20),
        ("wmt14_en_de_shaw", "7e-4", "1e-9", 100000, 1500, 1),
    ],
)
def test_what_no_committed_result_has_of_wmt14(name, lr, epsilon, updates, save_every, average):
    recipe = load_recipe(name)
    train = [recipe.train.get(key) for key in ("lr", "adam-eps", "max-update", "save-interval-updates")]
    assert [*train, recipe.train["warmup-updates"]] == [lr, epsilon, updates, save_every, 4000]
    assert (recipe.score.average, recipe.score.beam, recipe.score.lenpen) == (average, 4, "0.6")


def test_a_run_that_cannot_begin_again_has_that_reason_and_not_the_one_of_an_earlier_call(write, tmp_path):
    words = [write(OWN), "--out", str(tmp_path / "out"), "--results", str(tmp_path / "results")]
    (experiment,) = Sweep(parse(words)).experiments
    experiment.folder.mkdir(parents=True)
    (experiment.folder / "run.json").write_text('{"arch": "roformer_tiny", "seed": 1, "command": "scripts/train.sh"}')
    (experiment.folder / "train.log").write_text("RuntimeError: of an earlier call\n")
    walk([experiment])
    assert "no prepared data" in read_result(experiment.file).unfinished


def test_a_recipe_that_changes_its_data_does_not_share_them(write, tmp_path):
    assert load_recipe("multi30k_cpu").shares == "multi30k" and load_recipe("lm_books").shares == "mlm_books"
    same = load_recipe(write('extends = "multi30k"\n[score]\naverage = 2\n[data]\ntarget = "de"'))
    assert (same.shares, same.raw) == ("multi30k", ROOT / "data/multi30k")
    back = load_recipe(write('extends = "multi30k"\n[data]\nsource = "de"\ntarget = "en"'))
    assert (back.shares, back.raw, back.data.tests) == ("mine", tmp_path, ["test_2016_flickr"])
    own = load_recipe(write(f'extends = "small"\n[data]\n{TEXT}'))
    assert (own.shares, own.flags) == ("mine", load_recipe("small").flags)
    other = load_recipe(write('extends = "demo"\n[train]\ntask = "masked_lm"'))
    assert (other.shares, other.raw) == ("mine", tmp_path)


def test_a_recipe_for_text_names_its_folder_and_no_languages(write, tmp_path):
    assert load_recipe("lm_books_bytes").raw == ROOT / "data/books"
    here = load_recipe(write(f'{MASKED}[data]\n{TEXT}folder = "texts"'))
    assert here.raw == tmp_path / "texts" and here.task.is_text
    options = Sweep(parse([write(f'{MASKED}[data]\n{TEXT}[prepare]\nsubwords = "bytes"')])).prepare_options
    sets = [word for name in ("train", "valid", "test") for word in (f"--{name}", str(tmp_path / name))]
    assert options == [*sets, "--out", str(ROOT / "runs/mine/data"), "--subwords", "bytes"]


def test_the_last_way_to_choose_a_batch_counts(write):
    by_tokens = load_recipe(write('extends = "wmt14_en_de"\n[train]\nrequired-batch-size-multiple = 4'))
    assert by_tokens.train["target-tokens"] == 25000
    by_hand = write('extends = "wmt14_en_de"\n[train]\nmax-tokens = 2048')
    assert "target-tokens" not in load_recipe(by_hand).train
    again = load_recipe(write(f'extends = "{by_hand}"\n[train]\ntarget-tokens = 9', "again"))
    assert again.train["target-tokens"] == 9 and "max-tokens" not in again.train
    with pytest.raises(Failure, match="'target-tokens' and 'update-freq' both choose the batch: leave one out"):
        load_recipe(write('extends = "small"\n[train]\ntarget-tokens = 9\nupdate-freq = 3'))


@pytest.mark.parametrize(
    "text,named",
    [
        ('extends = "small"\nflags = "--lr 1"', "flags"),
        ('extends = "small"\n[train]\ntask = "lm"', "'lm'"),
        ("[train]\nlr = 1", "extend translation, masked_lm, language_modeling"),
        ("extends = 'smal'", "'smal'"),
        ('extends = "small"\n[data]\ntrain = "x"', "'valid'"),
    ],
)
def test_a_wrong_recipe_is_refused_in_one_line(write, text, named):
    with pytest.raises(Failure) as refused:
        load_recipe(write(text))
    said = str(refused.value)
    assert named in said and "\n" not in said and len(said) < 600


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["small"], "scripts/train.sh"),  # it has no text
        (["demo", "--variant", "odd roformer_tiny --warmup 5"], "roformer_tiny (odd): fairseq-train: unrecognized"),
        (["mlm_demo", "--archs", "roformer_lm_tiny"], "roformer_lm_tiny: the task masked_lm cannot train"),
    ],
)
def test_what_fairseq_cannot_train_is_refused_before_anything_runs(words, named):
    with pytest.raises(Failure) as refused:
        Sweep(parse(words))
    assert named in str(refused.value)
