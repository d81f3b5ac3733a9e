"""scripts/check_gpu.sh: the scripts take its commands; what is done is skipped; nothing outlives a cut or a failure."""

import os
import sys
import time
from pathlib import Path

import pytest
import torch

from pipeline.benchmark.__main__ import build_parser
from pipeline.command import Failure, split_at_dashes
from pipeline.gpu import check
from pipeline.gpu.check import Cut, main, run_all
from pipeline.gpu.parts import FULL, PARTS, SMALL, TRAINED, Parts, Stage
from pipeline.sweep.options import parse as parse_sweep


def parts(tmp_path, scale, *words):
    texts = [word for recipe in TRAINED for word in (f"--{recipe}", str(tmp_path))]
    args = check.parse(["--out", str(tmp_path / "out"), *texts, *words])
    return Parts(args, scale)


def rehearse(tmp_path, *names):
    main(["--rehearse", "--out", str(tmp_path / "out"), "--parts", *names])


def python(program):
    return [sys.executable, "-c", program]


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


def test_without_text_a_training_is_left_out_unless_it_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "PARTS", ["mix"])
    main(["--rehearse", "--out", str(tmp_path / "out")])
    assert "mix: left out, because it needs --mix FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        rehearse(tmp_path, "mix")
    assert "the part mix needs --mix FOLDER" in capsys.readouterr().err


def test_a_relative_folder_is_that_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    found = parts(tmp_path, SMALL, "--mix", "text")
    assert found.raw["mix"] == tmp_path / "text"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    with pytest.raises(Failure, match="no GPU here: --rehearse"):
        main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_a_part_is_done_once_and_a_failure_does_not_end_the_others(tmp_path, capsys, monkeypatch):
    ran, figure = tmp_path / "ran", tmp_path / "figure"
    good = Stage("good", [python(f"for name in {[str(ran), str(figure)]!r}: open(name, 'a').write('x')")], [figure])
    bad = Stage("bad", [python("raise ValueError('of this kind')")], [])
    monkeypatch.setattr(Parts, "stages", lambda self, part: [bad] if part == "rope" else [good])
    for _ in range(2):
        with pytest.raises(Failure, match=r"^not done: rope$"):
            rehearse(tmp_path, "rope", "criterion")
        assert "rope: status 1: ValueError: of this kind" in capsys.readouterr().err
    assert ran.read_text() == "x"
    figure.unlink()
    rehearse(tmp_path, "criterion")
    assert ran.read_text() == "xx"


def test_a_stage_is_done_again_where_the_code_has_changed(tmp_path, monkeypatch):
    """Also in a copy, which has no commit; figures and what Python compiles are no code."""
    monkeypatch.setattr(check, "ROOT", tmp_path)
    source, output = tmp_path / "fairseq_rope/model.py", tmp_path / "figures/count"
    for folder in (source.parent, output.parent):
        folder.mkdir()
    source.write_text("before")
    stage = Stage("only", [python(f"open({str(output)!r}, 'a').write('x')")], [output])

    def times_done():
        check.check("part", [stage], tmp_path / "out", time.monotonic() + 60, None)
        return len(output.read_text())

    assert times_done() == times_done() == 1
    (source.parent / "model.pyc").touch()
    assert times_done() == 1
    source.write_text("after")
    assert times_done() == 2


def test_a_cut_ends_all_commands_and_leaves_the_other_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "MINUTE", 10.0)
    files = [tmp_path / name for name in "abc"]
    sleep = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    stage = Stage("long", [python(sleep.format(str(file))) for file in files], [])
    monkeypatch.setattr(Parts, "stages", lambda self, part: [stage])
    start = time.monotonic()
    with pytest.raises(Failure, match="rope: the time is over"):
        main(["--rehearse", "--minutes", "1", "--out", str(tmp_path / "out"), "--parts", "rope", "criterion"])
    assert time.monotonic() - start < 40 and not (tmp_path / "out/criterion").exists()
    began = [file for file in files if file.is_file()]
    assert began
    for file in began:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


def test_the_error_is_of_this_attempt(tmp_path):
    log, forever = tmp_path / "log", time.monotonic() + 60
    with pytest.raises(Failure, match="status 1: ValueError: old"):
        run_all([python("raise ValueError('old')")], log, forever)
    with pytest.raises(Failure, match="SIGKILL: no reason given"):
        run_all([python("import os; os.kill(os.getpid(), 9)")], log, forever)
    with pytest.raises(Cut):
        run_all([python("import time; time.sleep(60)")], log, time.monotonic())
