"""Recipes: from scripts/recipes or from anywhere, with data or without."""

import pytest

from pipeline.command import Failure
from pipeline.paths import ROOT
from pipeline.recipes import FOLDER, Recipe, load_recipe, recipe_names
from pipeline.sweep.options import parse, parse_config
from pipeline.sweep.sweep import Sweep

DATA = 'train = "train"\nvalid = "valid"\ntests = ["test"]\narchs = ["roformer_tiny"]\n'


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine"):
        path = tmp_path / f"{name}.toml"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text.encode())
        return path

    return write


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_of_the_project_loads_by_its_name_and_by_its_path(name):
    recipe = load_recipe(name)
    assert recipe == load_recipe(str(FOLDER / f"{name}.toml")) and recipe.option == recipe.name == name
    assert not recipe.data or recipe.raw == ROOT / "data" / (recipe.folder or recipe.data)


def test_a_recipe_from_elsewhere_finds_its_text_in_its_own_folder(write, tmp_path):
    path = write(DATA)
    recipe = load_recipe(str(path))
    assert (recipe.name, recipe.data, recipe.raw, recipe.option) == ("mine", "mine", tmp_path, str(path))
    for args in (parse([str(path)]), parse_config({"recipe": str(path)})):
        sweep = Sweep(args)
        assert sweep.raw == tmp_path and sweep.out == ROOT / "runs/mine"
        options = sweep.experiments[0].train_options
        assert options[options.index("--recipe") + 1] == str(path)


def test_the_path_of_a_recipe_starts_at_the_current_folder_and_extends_at_the_file(write, monkeypatch, tmp_path):
    write(DATA + "average = 3", "shared/base")
    write('extends = "shared/base.toml"\naverage = 4', "mine")
    write('extends = "../mine.toml"\nmax_update = 7', "further/yours")
    monkeypatch.chdir(tmp_path / "further")
    recipe = load_recipe("yours.toml")
    assert (recipe.average, recipe.max_update, recipe.data) == (4, 7, "base")
    assert recipe.raw == tmp_path / "shared" and recipe.option == str(tmp_path / "further/yours.toml")


def test_a_recipe_that_names_other_data_than_the_one_it_extends_does_not_share_them(write, tmp_path):
    assert load_recipe("multi30k_cpu").data == "multi30k"
    same = load_recipe(str(write('extends = "multi30k"\naverage = 2\ntarget = "de"')))
    assert (same.data, same.raw) == ("multi30k", ROOT / "data/multi30k")
    back = load_recipe(str(write('extends = "multi30k"\nsource = "de"\ntarget = "en"')))
    assert (back.data, back.raw, back.tests) == ("mine", tmp_path, ["test_2016_flickr"])
    own = load_recipe(str(write(f'extends = "small"\n{DATA}')))
    assert (own.data, own.flags) == ("mine", load_recipe("small").flags)


def test_a_recipe_for_text_names_its_folder_and_shares_data_only_with_text(write, tmp_path):
    assert load_recipe("lm_books").data == load_recipe("mlm_books").data == "mlm_books"
    assert load_recipe("lm_books_bytes").raw == ROOT / "data/books"
    here = load_recipe(str(write(f'{DATA}task = "masked_lm"\nfolder = "texts"')))
    assert here.raw == tmp_path / "texts" and here.kind.is_text
    other = load_recipe(str(write('extends = "demo"\ntask = "masked_lm"')))
    assert (other.data, other.raw) == ("mine", tmp_path)
    options = Sweep(
        parse([str(write(DATA + 'task = "language_modeling"')), "--archs", "roformer_lm_tiny"])
    ).prepare_options
    assert options == ["--train", tmp_path / "train", "--valid", tmp_path / "valid", "--test", tmp_path / "test",
                       "--out", ROOT / "runs/mine/data"]  # fmt: skip


def test_a_recipe_without_text_trains_and_is_not_reproduced(write):
    path = str(write("max_update = 5"))
    assert load_recipe(path) == Recipe("mine", max_update=5, option=path)
    with pytest.raises(
        Failure, match=r"the recipe small names no text: give it to scripts/train\.sh, or write a recipe"
    ):
        Sweep(parse(["small"]))


def test_flags_that_choose_the_batch_replace_inherited_target_tokens(write):
    by_tokens = load_recipe(str(write('extends = "wmt14_en_de"\nflags = "--required-batch-size-multiple 4"')))
    assert by_tokens.target_tokens == 25000
    assert load_recipe(str(write('extends = "wmt14_en_de"\nflags = "--max-tokens 2048"'))).target_tokens is None
    with pytest.raises(Failure, match="'target_tokens' and 'flags' both choose the batch: leave one out"):
        load_recipe(str(write('target_tokens = 9\nflags = "--update-freq=3"')))


def test_runs_do_not_go_into_the_folder_of_other_output(write, tmp_path):
    (tmp_path / "mine_data.toml").write_text(f'extends = "{write(DATA)}"')
    with pytest.raises(Failure, match=r"the recipe mine_data would train in .*/mine/data, which has other files"):
        Sweep(parse([str(tmp_path / "mine_data.toml")]))


@pytest.mark.parametrize(
    "text,message",
    [
        ("x = ", "not TOML"),
        ("\x00", "not TOML"),
        ("a = " + "[" * 9999, "not TOML"),
        ("#" * 70000, "larger than 65536 bytes: is it a recipe?"),
        (
            "prepare = '--merges 9 --out /nowhere'",
            "'prepare' has '--out', which is not for a recipe to choose: leave it out",
        ),
        ("prepare = '--train=/nowhere'", "'prepare' has '--train=/nowhere', which is not for a recipe to choose"),
        ("name = 'x'", "unknown entry 'name'; there are: task train valid tests"),
        ("task = 'lm'", "unknown 'task' 'lm'; there are: translation masked_lm language_modeling"),
        ("task = 'masked_lm'\ntarget = 'fr'", "'target' is for translation, and 'task' is masked_lm: leave it out"),
        ("extends = 'mix'\ntask = 'masked_lm'", "'join' is for translation, and 'task' is masked_lm"),
        ("task = 'sentence_prediction'\naverage = 1", "'average' is for a training from the start"),
        ("task = 'masked_lm'\nseeds = [1]", "'seeds' is for fine-tuning, and 'task' is masked_lm"),
        ("task = 'sentence_prediction'", "'learning_rates' is missing"),
        ("extends = 'glue'\nseeds = [1, 1]", "'seeds' must be different numbers, none below 0, not [1, 1]"),
        ("extends = 'glue'\nlearning_rates = [1e-5, nan]", "'learning_rates' must be different numbers"),
        ("extends = 'glue'\nlearning_rates = [1]", "'learning_rates' must be a list of decimal numbers, not [1]"),
        ("task = ['x']", "'task' must be text, not ['x']"),
        ("'a\\nb' = 1".replace("'", '"'), r"unknown entry 'a\nb'"),
        ("max_update = true", "'max_update' must be a whole number, not True"),
        ("max_update = 0", "'max_update' must be a number from 1 to 1,000,000,000"),
        (f"max_update = 1{'0' * 99}", "'max_update' must be a number from 1 to 1,000,000,000"),
        (f"archs = [{'1, ' * 999}]", "'archs' must be a list of texts, not [1, 1"),
        ("extends = ['small']", "'extends' must be text, not ['small']"),
        ("extends = 'smal'", "unknown recipe 'smal'; there are: demo"),
        ("extends = 'no.toml'", "no.toml: there is no such recipe"),
        ("extends = 'mine.toml'", "extends itself"),
        ("flags = \"--lr '1\"", "'flags' cannot be split into words"),
        (DATA.replace("train\"", 'tr\\nain"', 1), r"'train' has a character that cannot be printed: 'tr\nain'"),
        (DATA.replace('"test"', '"test", "test"'), "'tests' names a test set twice"),
        ('train = "x"', "'valid' is missing"),
        (DATA.replace("archs", "#"), "'archs' is missing"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_refused_in_one_line(write, text, message):
    with pytest.raises(Failure) as refused:
        load_recipe(str(write(text)))
    said = str(refused.value)
    assert message in said and "\n" not in said and len(said) < 600


@pytest.mark.parametrize(
    "name,message",
    [
        ("nope", "unknown recipe 'nope'; there are: demo glue"),
        ("a\nb.toml", "a b.toml: there is no such recipe"),
        ("a b.toml", "rename the recipe: its name goes into other names"),
        ("demo.toml", "rename the recipe: there is one of this name in scripts/recipes"),
        (".toml", "there is no such recipe"),
    ],
)
def test_a_recipe_that_is_missing_or_has_an_unsuitable_name_is_refused(write, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    write(DATA, "a b"), write(DATA, "demo"), (tmp_path / ".toml").mkdir()
    with pytest.raises(Failure) as refused:
        load_recipe(name)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_recipes_that_extend_each_other_are_refused(write):
    write('extends = "b.toml"', "a")
    with pytest.raises(Failure, match="extends itself"):
        load_recipe(str(write('extends = "a.toml"', "b")))


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("odd roformer_tiny --rope-layout none", "roformer_tiny (odd): fairseq-train: argument --rope-layout: invalid"),
        ("odd roformer_tiny --warmup 5", "roformer_tiny (odd): fairseq-train: unrecognized arguments: --warmup 5"),
    ],
)
def test_a_system_whose_flags_fairseq_cannot_read_is_refused_before_anything_runs(variant, message):
    with pytest.raises(Failure) as refused:
        Sweep(parse(["demo", "--variant", variant]))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("name", [name for name in recipe_names() if load_recipe(name).tests])
def test_fairseq_reads_the_flags_of_every_recipe_and_those_of_the_parts_that_train_sh_chooses(name):
    recipe = load_recipe(name)
    if recipe.kind.trained_by == "finetune.sh":
        return
    flags = ["--weight-decay", "0.1", "--adam-eps", "1e-6"]
    flags += (
        ["--total-num-update", "9"] if recipe.kind.is_text else ["--warmup-init-lr", "1e-7", "--label-smoothing", "0"]
    )
    Sweep(parse([name, "--", *flags]))


@pytest.mark.parametrize(
    ("recipe", "arch"), [("demo", "roformer_mlm_tiny"), ("mlm_demo", "roformer_tiny"), ("mlm_demo", "roformer_lm_tiny")]
)
def test_a_system_of_another_kind_than_the_task_trains_is_refused_before_anything_runs(recipe, arch):
    with pytest.raises(Failure, match=f"{arch}: the task .* cannot train {arch}, which is another kind of model"):
        Sweep(parse([recipe, "--archs", arch]))
