"""What scripts/check_gpu.sh runs: the scripts take its commands, each family and each training is in one of them."""

from pathlib import Path

import pytest

from pipeline.benchmark.__main__ import build_parser
from pipeline.command import split_at_dashes
from pipeline.gpu import check
from pipeline.gpu.parts import FULL, LINES, PARTS, SMALL, TRAINED, TRAINING_LINES, Parts
from pipeline.recipes import load_recipe
from pipeline.sweep.options import parse as parse_sweep
from pipeline.systems import read_systems


def write_text(folder):
    for recipe in map(load_recipe, TRAINED):
        for corpus in (recipe.train, recipe.valid, *recipe.tests):
            for lang in (recipe.source, recipe.target):
                (folder / f"{corpus}.{lang}").write_text("A dog .\n" * (TRAINING_LINES + 1))


def parts(tmp_path, scale, *words):
    write_text(tmp_path)
    texts = [word for recipe in TRAINED for word in (f"--{recipe}", str(tmp_path))]
    args = check.parse(["--out", str(tmp_path / "out"), *texts, *words])
    return Parts(args, scale)


@pytest.mark.parametrize("scale", [FULL, SMALL], ids=["full", "small"])
@pytest.mark.parametrize("part", PARTS[1:])
def test_the_scripts_take_the_commands_of_every_part(tmp_path, scale, part):
    for stage in parts(tmp_path, scale).stages(part):
        for script, *words in stage.commands:
            assert Path(script).is_file()
            options, _ = split_at_dashes(words)
            if part in TRAINED:
                assert parse_sweep(words).recipe == part
            else:
                read = build_parser().parse_args(options)
                assert read.device == scale.device and stage.outputs == [read.out]


def test_every_family_is_measured_once_and_once_compiled_few_at_a_time(tmp_path):
    stages = [stage for part in ("train", "compile", "families") for stage in parts(tmp_path, FULL).stages(part)]
    read = [build_parser().parse_args(stage.commands[0][1:]) for stage in stages]
    assert len({args.out for args in read}) == len({stage.name for stage in stages}) == len(stages)
    assert all(args.baseline == "stock" and len(args.archs) <= 2 for args in read)
    assert read[1].archs == ["stock+compile", "roformer_base+compile"]
    assert [args.archs for args in read if not args.profile] == [args.archs for args in read if "+" in args.archs[0]]
    measured = [arch for args in read for arch in args.archs]
    families = {arch for arch in measured if "+" not in arch}
    assert sorted(measured) == sorted([*families, "stock+compile", *(f"{arch}+compile" for arch in families)])
    assert families == {system.arch for system in read_systems(["*_base"], [], None)}


@pytest.mark.parametrize("recipe, runs", [("multi30k", "3"), ("multi30k", "30"), ("mix", "4"), ("mix", "1")])
def test_every_training_belongs_to_one_of_the_commands_at_a_time(tmp_path, recipe, runs):
    shares, whole = parts(tmp_path, FULL, "--runs", runs).stages(recipe)
    read = [parse_sweep(words) for _, *words in shares.commands]
    trainings = [(arch, seed) for args in read for arch in args.archs for seed in args.seeds]
    assert len(read) <= int(runs) and len(set(trainings)) == len(trainings)
    report = parse_sweep(whole.commands[0][1:])
    assert set(trainings) == {(arch, seed) for arch in report.archs for seed in (1, 2, 3)}
    assert report.archs[0].startswith("roformer" if recipe == "multi30k" else "transformer_sinusoidal")


def test_lists_may_be_words_one_text_or_several_options(tmp_path, capsys):
    words = ["--seeds", "1 2", "--seeds", "3", "--parts", "rope", "--parts", "criterion"]
    args = check.parse(words)
    assert (args.seeds, args.parts, check.parse([]).seeds) == ([1, 2, 3], ["rope", "criterion"], [1, 2, 3])
    with pytest.raises(SystemExit, match="2"):
        check.parse(["--seeds", "1", "--seeds", "1"])
    assert "--seeds names '1' twice" in capsys.readouterr().err


def test_a_relative_folder_is_that_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    found = parts(tmp_path, SMALL, "--mix", "text")
    assert found.raw["mix"] == tmp_path / "text"


@pytest.mark.parametrize("scale", [FULL, SMALL], ids=["full", "small"])
def test_all_results_are_below_the_output(tmp_path, scale):
    """What git does not ignore may be gone when the machine is called again."""
    made = parts(tmp_path, scale)
    assert made.results == tmp_path / "out/results"
    for recipe in TRAINED:
        read = [parse_sweep(words) for stage in made.stages(recipe) for _, *words in stage.commands]
        assert {args.results for args in read} == {made.results}
        assert {args.report for args in read} == {tmp_path / "out" / recipe / "report"}


def test_a_rehearsal_trains_on_short_texts(tmp_path):
    made = parts(tmp_path, SMALL)
    for recipe in TRAINED:
        args = parse_sweep(made.stages(recipe)[0].commands[0][1:])
        texts = list(args.data.iterdir())
        assert args.data != tmp_path and len(texts) >= 6
        for path in texts:
            assert path.read_text() == "A dog .\n" * (TRAINING_LINES if path.stem == "train" else LINES)
        assert parse_sweep(parts(tmp_path, FULL).stages(recipe)[0].commands[0][1:]).data == tmp_path
