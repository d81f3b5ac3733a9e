"""Export and translation with CTranslate2 as a user calls them."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.export import QUANTIZATIONS, exported
from pipeline.translation.engines import CTranslate2Engine, FairseqEngine, build_engine

from ..commands import ENVIRONMENT, ROOT, failure, one_line, run
from ..disks import full_disk, read_only
from ..model_folders import run_folder

ctranslate2 = pytest.importorskip("ctranslate2")


@pytest.fixture
def folder(trained, tmp_path):
    """A model folder of one's own."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in trained.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    return copy


@pytest.fixture
def untrained(tmp_path):
    """A model folder of a model that was not trained."""
    return run_folder(tmp_path / "run", "roformer_tiny")


@pytest.fixture(scope="module")
def raw(corpus):
    return (corpus / "test.en").read_text(encoding="utf-8")


def export(*arguments):
    return main(["export", *map(str, arguments)])


def test_the_exported_folder_works_with_the_engine_alone(untrained, tmp_path, capsys):
    assert export(untrained, tmp_path / "out", "--quantization", "int8") == 0
    assert capsys.readouterr() == (f"{tmp_path / 'out'}: {untrained} for CTranslate2, int8\n", "")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    alone = "import sys, ctranslate2; t = ctranslate2.Translator(sys.argv[1]); "
    alone += "print(len(t.translate_batch([sys.argv[2].split()])[0].hypotheses[0]), 'fairseq' in sys.modules)"
    words, fairseq = run("python", "-c", alone, tmp_path / "out", "w1 w2 w3", cwd=tmp_path).stdout.split()
    assert int(words) > 0 and fairseq == "False"
    # of a checkpoint that is not the average
    assert export(untrained / "checkpoint.pt", tmp_path / "same") == 0
    assert "for CTranslate2, float32" in capsys.readouterr().out
    assert (tmp_path / "same/config.json").read_bytes() == (tmp_path / "out/config.json").read_bytes()


@pytest.mark.slow
def test_both_engines_translate_alike(folder, raw):
    """Also where the model, which knows little, goes on until the limit; without beams, whose ends differ."""
    found, expected = (
        run("scripts/translate.sh", folder, "--beam", 1, "--engine", engine, input="\n" + raw).stdout
        for engine in ("ctranslate2", "fairseq")
    )
    assert found == expected and found[0] == "\n" and found.count("\n") == 1 + raw.count("\n")


@pytest.mark.parametrize("arch", ["roformer_tiny", "tupe_r_tiny"])
def test_the_faster_engine_translates_by_itself_where_it_can(arch, tmp_path, capsys):
    model, words = run_folder(tmp_path / "run", arch), ["w1 w2 w3"]
    chosen = build_engine("auto", model, ("en", "de"), 1, 0.6, 4000)
    said, can = capsys.readouterr().err, arch == "roformer_tiny"
    assert isinstance(chosen, CTranslate2Engine if can else FairseqEngine)
    assert ("fairseq translates, because CTranslate2 cannot: --encoder-position tupe_r" in said) is not can
    assert chosen.search(words) == build_engine("fairseq", model, ("en", "de"), 1, 0.6, 4000).search(words)


def test_the_automatic_choice_hides_no_broken_checkpoint_and_needs_no_room(untrained, tmp_path, capsys, monkeypatch):
    with full_disk(tmp_path / "full", 0) as disk:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        with read_only(untrained):
            assert isinstance(build_engine("auto", untrained, ("en", "de"), 1, 0.6, 4000), FairseqEngine)
    assert "fairseq translates, because CTranslate2 cannot: " in capsys.readouterr().err
    (untrained / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError):
        build_engine("auto", untrained, ("en", "de"), 1, 0.6, 4000)


def test_the_export_is_made_once_for_each_checkpoint_quantisation_and_version(untrained, monkeypatch):
    first = exported(untrained)
    time = first.stat().st_mtime_ns
    assert exported(untrained) == first and first.stat().st_mtime_ns == time
    small = exported(untrained, "int8")
    state = torch.load(untrained / "checkpoint.pt", weights_only=True)
    state["model"]["encoder.embed_tokens.weight"] += 1
    torch.save(state, untrained / "checkpoint.pt")
    second = exported(untrained)
    assert sorted(p.name for p in (untrained / "ctranslate2").iterdir()) == sorted([second.name, small.name])
    assert (second / "model.bin").exists() and second != first
    monkeypatch.setattr("fairseq_rope.export.VERSION", 0)
    assert exported(untrained) != second and not second.exists()


def test_three_first_calls_at_once_have_one_export(untrained):
    with ThreadPoolExecutor(3) as pool:
        (out,) = set(pool.map(exported, [untrained] * 3))
    assert [path.name for path in (untrained / "ctranslate2").iterdir()] == [out.name] and (out / "model.bin").exists()


def test_where_the_model_folder_is_read_only_the_export_is_in_the_cache(untrained, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with read_only(untrained):
        out = exported(untrained)
        time = out.stat().st_mtime_ns
        assert exported(untrained) == out and out.stat().st_mtime_ns == time
    assert out.parent == tmp_path / "cache/fairseq_rope" and (out / "model.bin").exists()
    inside = exported(untrained)
    with read_only(untrained):
        assert exported(untrained) == inside == untrained / "ctranslate2" / out.name


def test_a_damaged_export_is_named(untrained):
    model = exported(untrained) / "model.bin"
    model.write_bytes(model.read_bytes()[:1000])
    with pytest.raises(ValueError, match=rf"CTranslate2 cannot use {model.parent} \(.*\): remove it"):
        CTranslate2Engine(untrained, 1, 1.0, 100)


def test_a_full_disk_is_named_and_leaves_nothing(untrained, tmp_path, capsys):
    with full_disk(tmp_path / "full", 4096) as disk:
        assert export(untrained, disk / "out") == 1
        assert capsys.readouterr().err == f"fairseq-rope: error: {disk / 'out'}: No space left on device\n"
        assert [path.name for path in disk.iterdir()] == ["fill"]


def test_wrong_exports_give_one_line_and_make_nothing(untrained, tmp_path, capsys):
    out = tmp_path / "out"
    assert "nowhere/checkpoint.pt: no such checkpoint" in failure(capsys, "export", tmp_path / "nowhere", out)
    message = failure(capsys, "export", untrained, out, "--quantization", "int4", status=2)
    assert "--quantization: invalid choice: 'int4'" in message and all(name in message for name in QUANTIZATIONS)
    assert "exists already: choose another folder, or remove it" in failure(capsys, "export", untrained, untrained)
    assert "required: OUT" in failure(capsys, "export", untrained, status=2)
    foreign = run_folder(tmp_path / "foreign", "transformer_tiny")
    assert "ct2-fairseq-converter" in failure(capsys, "export", foreign, out)
    (untrained / "dict.de.txt").unlink()
    assert "dict.de.txt: missing: scripts/average.sh makes a complete" in failure(capsys, "export", untrained, out)
    (untrained / "checkpoint.pt").write_bytes(b"nonsense")
    assert "checkpoint.pt: " in failure(capsys, "export", untrained, out)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "foreign"}


def test_wrong_calls_give_one_line_and_make_nothing(folder):
    translate = ["scripts/translate.sh", folder]
    one_line(run(*translate, "--engine", "marian", fails=True), "argument --engine: invalid choice: 'marian'")
    of_fairseq = [*translate, "--engine", "fairseq", "--quantization", "int8"]
    one_line(run(*of_fairseq, fails=True), "--quantization is for --engine ctranslate2")
    wrong = [*translate, "--engine", "ctranslate2", "--quantization", "int4"]
    one_line(run(*wrong, fails=True, input="x\n"), "--quantization must be one of int8, ")
    assert not (folder / "ctranslate2").exists()


def test_without_the_package_the_remedy_is_named(untrained, tmp_path):
    (tmp_path / "missing/ctranslate2").mkdir(parents=True)
    (tmp_path / "missing/ctranslate2/__init__.py").write_text("raise ImportError")
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "missing")}
    command = [sys.executable, "-m", "fairseq_rope", "export", str(untrained), str(tmp_path / "out")]
    environment["PYTHONPATH"] += os.pathsep + str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "CTranslate2 is not installed: run scripts/install.sh" in done.stderr
    assert not (tmp_path / "out").exists()
