"""scripts/check_gpu.sh: the scripts take its commands; a part is done once, or is cut or fails in words."""

import sys
from pathlib import Path

import pytest
import torch

from pipeline import check_gpu
from pipeline.benchmark.__main__ import build_parser
from pipeline.check_gpu import FULL, PARTS, SMALL, TRAINED, Checks, main, run_all
from pipeline.command import Failure, split_at_dashes
from pipeline.sweep.options import parse as parse_sweep


def checks(tmp_path, scale, *words):
    texts = [word for recipe in TRAINED for word in (f"--{recipe}", str(tmp_path))]
    return Checks(check_gpu.build_parser().parse_args(["--out", str(tmp_path / "out"), *texts, *words]), scale)


@pytest.mark.parametrize("scale", [FULL, SMALL], ids=["full", "small"])
@pytest.mark.parametrize("part", PARTS[1:])
def test_the_scripts_take_the_commands_of_every_part(tmp_path, scale, part):
    for script, *words in checks(tmp_path, scale).commands(part):
        assert Path(script).is_file()
        options, _ = split_at_dashes(words)
        if part in TRAINED:
            assert parse_sweep(words).recipe == part
        else:
            assert build_parser().parse_args(options).device == scale.device


def test_every_training_belongs_to_one_of_the_commands_at_a_time(tmp_path):
    found = [parse_sweep(words).archs for _, *words in checks(tmp_path, FULL, "--runs", "3").commands("multi30k")]
    archs = [arch for group in found for arch in group]
    assert len(found) == 3 and len(set(archs)) == len(archs) > 10 and archs[0] == "roformer_multi30k"


def test_without_text_a_training_is_left_out(tmp_path, capsys):
    main(["--rehearse", "--out", str(tmp_path), "--parts", "mix"])
    assert "mix: left out, because it needs --mix FOLDER" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    with pytest.raises(Failure, match="no GPU here: --rehearse"):
        main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_a_part_is_done_once_and_a_failure_does_not_end_the_others(tmp_path, capsys, monkeypatch):
    ran = tmp_path / "ran"
    good = [[sys.executable, "-c", f"open({str(ran)!r}, 'a').write('x')"]]
    bad = [[sys.executable, "-c", "raise ValueError('of this kind')"]]
    monkeypatch.setattr(Checks, "commands", lambda self, part: bad if part == "rope" else good)
    for _ in range(2):
        with pytest.raises(Failure, match=r"^not done: rope$"):
            main(["--rehearse", "--out", str(tmp_path / "out"), "--parts", "rope", "criterion"])
        assert "rope: ValueError: of this kind" in capsys.readouterr().err
    assert ran.read_text() == "x"


def test_a_part_is_cut_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(check_gpu, "MINUTE", 0.5)
    stays = tmp_path / "stays"
    command = [sys.executable, "-c", f"import time; time.sleep(5); open({str(stays)!r}, 'w')"]
    with pytest.raises(Failure, match="cut after --minutes 1"):
        run_all([command, command], tmp_path / "log", 1)
    assert not stays.exists()
