"""scripts/check_gpu.sh: what is done is skipped; nothing outlives a cut or a failure; what was measured is packed."""

import os
import sys
import tarfile
import time

import pytest
import torch

from pipeline.command import Failure
from pipeline.gpu import check
from pipeline.gpu.check import Cut, main, run_all
from pipeline.gpu.parts import Parts, Stage

from ...disks import full_disk


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """A rehearsal hides them for its process."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", "0"))


def rehearse(tmp_path, *names):
    main(["--rehearse", "--out", str(tmp_path / "out"), "--parts", *names])


def python(program):
    return [sys.executable, "-c", program]


def test_without_text_a_training_is_left_out_unless_it_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "PARTS", ["mix"])
    main(["--rehearse", "--out", str(tmp_path / "out")])
    assert "mix: left out, because it needs --mix FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        rehearse(tmp_path, "mix")
    assert "the part mix needs --mix FOLDER" in capsys.readouterr().err


def test_a_rehearsal_without_the_texts_names_what_is_missing(tmp_path, capsys):
    with pytest.raises(Failure, match=r"^not done: mix$"):
        rehearse(tmp_path, "mix", "--mix", str(tmp_path))
    assert "train.en not found" in capsys.readouterr().err


def test_a_rehearsal_hides_the_gpus(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    stage = Stage(
        "only", [python(f"import os; open({str(seen)!r}, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'])")], []
    )
    monkeypatch.setattr(Parts, "stages", lambda self, part: [stage])
    rehearse(tmp_path, "rope")
    assert seen.read_text() == ""


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


def test_a_benchmark_that_fails_does_not_end_the_others_of_its_part_but_a_training_does(tmp_path, capsys, monkeypatch):
    ran = tmp_path / "ran"
    bad = Stage("bad", [python("raise ValueError('of this kind')")], [])
    good = Stage("good", [python(f"open({str(ran)!r}, 'a').write('x')")], [])
    monkeypatch.setattr(Parts, "stages", lambda self, part: [bad, good])
    with pytest.raises(Failure, match=r"^not done: mix$"):
        rehearse(tmp_path, "mix", "--mix", str(tmp_path))
    assert not ran.exists()
    with pytest.raises(Failure, match=r"^not done: families$"):
        rehearse(tmp_path, "families")
    assert ran.exists() and "families: status 1: ValueError: of this kind" in capsys.readouterr().err


def packed(out):
    with tarfile.open(out / "figures.tar.gz") as archive:
        return sorted(archive.getnames())


def test_figures_reports_and_logs_are_packed_also_after_a_failure_and_a_cut(tmp_path, monkeypatch):
    out = tmp_path / "out"
    files = [out / name for name in ("results/a.json", "mix/report/report.md", "mix/arch/train.log", "mix/data/bin")]
    writes = "for path in map(__import__('pathlib').Path, {}): path.parent.mkdir(parents=True); path.write_text('x')"
    stages = [Stage("good", [python(writes.format([str(path) for path in files[1:]]))], [])]
    stages[:0] = [Stage("figure", [python(f"open({str(files[0])!r}, 'w')")], [files[0]])]
    monkeypatch.setattr(Parts, "stages", lambda self, part: stages)
    rehearse(tmp_path, "rope")
    first = ["mix/arch/train.log", "mix/report/report.md", "results/a.json", "rope/figure.log", "rope/good.log"]
    assert packed(out) == first
    stages[:] = [Stage("bad", [python("raise ValueError")], [])]
    with pytest.raises(Failure):
        rehearse(tmp_path, "decode")
    assert packed(out) == sorted([*first, "decode/bad.log"])
    monkeypatch.setattr(check, "MINUTE", 0.0)
    with pytest.raises(Failure, match="train: the time is over"):
        rehearse(tmp_path, "train", "--minutes", "1")
    assert packed(out) == sorted([*first, "decode/bad.log", "train/bad.log"])
    assert not list(out.glob(".*"))


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


def test_a_full_disk_is_the_error(tmp_path):
    with full_disk(tmp_path / "full", 4096) as disk, pytest.raises(Failure, match=f"no room is left in {disk}"):
        run_all([python("print('x' * 99999)")], disk / "log", time.monotonic() + 60)
