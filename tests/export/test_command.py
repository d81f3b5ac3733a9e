"""Export and translation with CTranslate2 as a user calls them."""

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.multilingual import Direction
from fairseq_rope.export import exported
from pipeline.translation.engines import CTranslate2Engine, FairseqEngine, Search, build_engine

from ..commands import failure, run
from ..disks import full_disk, read_only
from ..model_folders import run_folder

ctranslate2 = pytest.importorskip("ctranslate2")


@pytest.fixture
def untrained(tmp_path):
    """A model folder of a model that was not trained."""
    return run_folder(tmp_path / "run", "roformer_tiny")


def export(*arguments):
    return main(["export", *map(str, arguments)])


def test_the_exported_folder_works_with_the_engine_alone(untrained, tmp_path, capsys):
    assert export(untrained, tmp_path / "out", "--quantization", "int8") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path / 'out'}: ") and printed.out.count("\n") == 1 and printed.err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    alone = "import sys, ctranslate2; t = ctranslate2.Translator(sys.argv[1]); "
    alone += "print(len(t.translate_batch([sys.argv[2].split()])[0].hypotheses[0]), 'fairseq' in sys.modules)"
    words, fairseq = run("python", "-c", alone, tmp_path / "out", "w1 w2 w3", cwd=tmp_path).stdout.split()
    assert int(words) > 0 and fairseq == "False"
    # of a checkpoint that is not the average
    assert export(untrained / "checkpoint.pt", tmp_path / "same") == 0
    assert (tmp_path / "same/config.json").read_bytes() == (tmp_path / "out/config.json").read_bytes()


@pytest.mark.parametrize("arch", ["roformer_tiny", "tupe_r_tiny"])
def test_the_faster_engine_translates_by_itself_where_it_can(arch, tmp_path, capsys):
    model, words = run_folder(tmp_path / "run", arch), ["w1 w2 w3"]
    chosen = build_engine("auto", model, Direction("en", "de"), Search(1))
    said, can = capsys.readouterr().err, arch == "roformer_tiny"
    assert isinstance(chosen, CTranslate2Engine if can else FairseqEngine)
    assert ("--encoder-position tupe_r" in said) is not can
    assert chosen.search(words) == build_engine("fairseq", model, Direction("en", "de"), Search(1)).search(words)


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


def test_wrong_exports_give_one_line_and_make_nothing(untrained, tmp_path, capsys):
    out = tmp_path / "out"
    assert str(untrained) in failure(capsys, "export", untrained, untrained)
    foreign = run_folder(tmp_path / "foreign", "transformer_tiny")
    assert "ct2-fairseq-converter" in failure(capsys, "export", foreign, out)
    with full_disk(tmp_path / "full", 4096) as disk:
        assert str(disk / "out") in failure(capsys, "export", untrained, disk / "out")
        assert [path.name for path in disk.iterdir()] == ["fill"]
    (untrained / "checkpoint.pt").write_bytes(b"nonsense")
    assert "checkpoint.pt: " in failure(capsys, "export", untrained, out)
    with pytest.raises(CheckpointError):  # the automatic choice hides it no more than the command
        build_engine("auto", untrained, Direction("en", "de"), Search())
    assert {path.name for path in tmp_path.iterdir()} == {"run", "foreign", "full"}
