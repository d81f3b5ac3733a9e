"""Export and translation with CTranslate2 as a user calls them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from fairseq_rope.export import exported

from ..commands import ENVIRONMENT, ROOT, one_line, run

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


@pytest.fixture(scope="module")
def raw(corpus):
    return (corpus / "test.en").read_text(encoding="utf-8")


def test_the_exported_folder_works_with_the_engine_alone(trained, data, tmp_path):
    run("scripts/export_ctranslate2.sh", trained, tmp_path / "out", "--quantization", "int8")
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    alone = "import sys, ctranslate2; t = ctranslate2.Translator(sys.argv[1]); "
    alone += "print(len(t.translate_batch([sys.argv[2].split()])[0].hypotheses[0]), 'fairseq' in sys.modules)"
    sentence = (data / "bpe/test.en").read_text(encoding="utf-8").splitlines()[0]
    words, fairseq = run("python", "-c", alone, tmp_path / "out", sentence, cwd=tmp_path).stdout.split()
    assert int(words) > 0 and fairseq == "False"
    # of a checkpoint that is not the average
    run("scripts/export_ctranslate2.sh", trained / "checkpoint.pt", tmp_path / "same")
    assert (tmp_path / "same/config.json").read_bytes() == (tmp_path / "out/config.json").read_bytes()


def test_both_engines_translate_alike(folder, raw):
    """Also where the model, which knows little, goes on until the limit; without beams, whose ends differ."""
    found, expected = (
        run("scripts/translate.sh", folder, "--beam", 1, "--engine", engine, input="\n" + raw).stdout
        for engine in ("ctranslate2", "fairseq")
    )
    assert found == expected and found[0] == "\n" and found.count("\n") == 1 + raw.count("\n")


def test_the_export_is_made_once_for_each_checkpoint_and_quantisation(folder):
    first = exported(folder)
    made = first.stat().st_mtime_ns
    assert exported(folder) == first and first.stat().st_mtime_ns == made
    small = exported(folder, "int8")
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["model"]["encoder.embed_tokens.weight"] += 1
    torch.save(state, folder / "checkpoint.pt")
    second = exported(folder)
    assert sorted(p.name for p in (folder / "ctranslate2").iterdir()) == sorted([second.name, small.name])
    assert (second / "model.bin").exists() and second != first


def test_wrong_calls_give_one_line_and_make_nothing(folder, tmp_path):
    out = tmp_path / "out"
    export = "scripts/export_ctranslate2.sh"
    one_line(run(export, tmp_path / "nowhere", out, fails=True), "nowhere/checkpoint.pt: no such checkpoint")
    one_line(run(export, folder, out, "--quantization", "int4", fails=True), "--quantization must be one of int8, ")
    one_line(run(export, folder, folder, fails=True), "exists already: choose another folder, or remove it")
    one_line(run(export, folder, fails=True), "the model folder and the folder to make are needed")
    translate = ["scripts/translate.sh", folder]
    one_line(run(*translate, "--engine", "marian", fails=True), "--engine must be fairseq or ctranslate2, not 'marian'")
    one_line(run(*translate, "--quantization", "int8", fails=True), "--quantization is for --engine ctranslate2")
    wrong = [*translate, "--engine", "ctranslate2", "--quantization", "int4"]
    one_line(run(*wrong, fails=True, input="x\n"), "--quantization must be one of int8, ")
    (folder / "dict.de.txt").unlink()
    one_line(run(export, folder, out, fails=True), "dict.de.txt: missing: scripts/average.sh makes a complete")
    (folder / "checkpoint.pt").write_bytes(b"nonsense")
    one_line(run(export, folder, out, fails=True), "checkpoint.pt: ")
    assert not out.exists() and not (folder / "ctranslate2").exists()


def test_without_the_package_the_remedy_is_named(folder, tmp_path):
    (tmp_path / "missing/ctranslate2").mkdir(parents=True)
    (tmp_path / "missing/ctranslate2/__init__.py").write_text("raise ImportError")
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "missing")}
    command = ["python", "-m", "fairseq_rope.export.command", str(folder), str(tmp_path / "out")]
    environment["PYTHONPATH"] += os.pathsep + str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "CTranslate2 is not installed: run scripts/install.sh" in done.stderr
    assert not Path(tmp_path / "out").exists()
