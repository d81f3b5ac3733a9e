"""Pictures of what positions contribute: the files, and what is refused."""

import struct
import sys

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.inspection.terms import (
    load_model,
)

from ..model_folders import language_run_folder, run_folder


def size(path):
    """Width and height in a PNG file's header."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def draw(tmp_path, capsys, *arguments):
    out = tmp_path / "new" / "picture.png"
    assert main(["plot", *map(str, arguments), "--out", str(out)]) == 0
    assert capsys.readouterr() == (f"{out}: {arguments[0]}\n", "")
    assert [p.name for p in out.parent.iterdir()] == [out.name]
    width, height = size(out)
    assert 300 < width < 3000 and 300 < height < 3000
    return width, height


def test_every_picture_is_written(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = run_folder(tmp_path / "run", "tupe_r_tiny")
    draw(tmp_path, capsys, "decay", "--rope-dim", "8", "16", "--rope-base", "10", "100", "--max-distance", "20")
    draw(tmp_path, capsys, "tupe", folder, "--length", "9")
    draw(tmp_path, capsys, "bias", folder, "--length", "9", "--sentences", "3", "--side", "decoder")
    draw(tmp_path, capsys, "bias", folder, "--length", "9", "--sentences", "3", "--by-distance")
    draw(tmp_path, capsys, "bias", folder, "--length", "1", "--sentences", "1")


@pytest.mark.parametrize("arch", ["tupe_a_mlm_tiny", "tupe_r_lm_tiny"])
def test_language_models_are_drawn_with_the_side_that_they_have(tmp_path, capsys, arch):
    pytest.importorskip("matplotlib")
    folder = language_run_folder(tmp_path / "run", arch)
    draw(tmp_path, capsys, "tupe", folder, "--length", "9")
    draw(tmp_path, capsys, "bias", folder, "--length", "9", "--sentences", "3")
    side = "encoder" if "_lm_" in arch else "decoder"
    assert f"has no {side}" in refused(capsys, "tupe", folder, "--side", side, "--out", tmp_path / "x.png")


def test_a_fine_tuned_model_is_drawn_without_the_data_of_its_task(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = language_run_folder(tmp_path / "run", "tupe_a_mlm_tiny")
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["cfg"]["task"] = {"_name": "sentence_prediction", "num_classes": 2}
    head = {"dense.weight": (128, 128), "dense.bias": (128,), "out_proj.weight": (2, 128), "out_proj.bias": (2,)}
    state["model"] |= {f"classification_heads.a.{name}": torch.zeros(size) for name, size in head.items()}
    torch.save(state, folder / "checkpoint.pt")
    draw(tmp_path, capsys, "tupe", folder, "--length", "9")
    del state["model"]["encoder.sentence_encoder.position.table"]
    torch.save(state, folder / "checkpoint.pt")
    message = refused(capsys, "tupe", folder, "--out", tmp_path / "x.png")
    assert "its options and its parameters do not fit" in message


def test_a_saved_model_is_the_one_that_is_measured(tmp_path):
    folder = run_folder(tmp_path / "run", "tupe_a_tiny")
    table = torch.load(folder / "checkpoint.pt", weights_only=True)["model"]["encoder.position.table"]
    model = load_model(folder)
    assert torch.equal(model.encoder.position.table, table) and not model.training
    assert model.encoder.dictionary.count[-1] == 20


def refused(capsys, *arguments):
    assert main(["plot", *map(str, arguments)]) == 1
    printed, message = capsys.readouterr()
    assert message.startswith("fairseq-rope: error: ") and message.count("\n") == 1 and printed == ""
    return message


def test_models_that_do_not_fit_give_one_line_and_no_file(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "x.png"
    linear = run_folder(tmp_path / "linear", "roformer_linear_tiny")
    assert "has linear attention" in refused(capsys, "bias", linear, "--out", out)
    assert "the encoder has the encoding linear, and this draws only" in refused(capsys, "tupe", linear, "--out", out)
    foreign = run_folder(tmp_path / "foreign", "fairseq_transformer_tiny")
    assert "fairseq's own model" in refused(capsys, "bias", foreign, "--out", out)
    (linear / "dict.de.txt").unlink()
    assert "dict.de.txt: missing" in refused(capsys, "bias", linear, "--out", out)
    assert "no such checkpoint" in refused(capsys, "tupe", tmp_path, "--out", out)
    assert "--rope-dim must be even" in refused(capsys, "decay", "--rope-dim", "7", "--out", out)
    assert {p.name for p in tmp_path.iterdir()} == {"linear", "foreign"}
    out.mkdir()  # in the way
    assert "x.png" in refused(capsys, "decay", "--out", out)
    assert {p.name for p in tmp_path.iterdir()} == {"linear", "foreign", "x.png"}


def test_missing_matplotlib_gives_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused(capsys, "decay", "--out", tmp_path / "x.png")
    assert "matplotlib is not installed: run scripts/install.sh, or pip install matplotlib" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments,message",
    [
        ([], "required: decay|tupe|bias"),
        (["delay"], "invalid choice: 'delay'"),
        (["decay", "--seed", "1", "--out", "x.png"], "unrecognized arguments: --seed 1"),
        (["decay", "x", "--out", "x.png"], "unrecognized arguments: x"),
        (["decay", "--out", "x.png", "--rope-base", "8", "x"], "--rope-base: must be a number, not 'x'"),
        (["decay", "--out", "x.png", "--rope-base", "nan"], "--rope-base: must be a number, not 'nan'"),
        (
            ["decay", "--out", "x.png", "--rope-dim", "8.5"],
            "--rope-dim: must be a whole number of at least 2, not '8.5'",
        ),
        (["decay", "--out", "x.png", "--rope-dim"], "--rope-dim: expected at least one argument"),
        (["decay", "--out", "x.png", "--max-distance", "0"], "--max-distance: must be a whole number of at least 1"),
        (["tupe", "--out", "x.png"], "required: RUN"),
        (["tupe", "x", "y", "--out", "x.png"], "unrecognized arguments: y"),
        (["tupe", "x", "--out", "x.png", "--by-distance"], "unrecognized arguments: --by-distance"),
        (["bias", "x", "--side", "left"], "--side: invalid choice: 'left'"),
        (["bias", "x", "--length", "-1"], "--length: must be a whole number of at least 1, not '-1'"),
        (["bias", "x", "--sentences", "08"], "--sentences: must be a whole number of at least 1, not '08'"),
        (["bias", "x", "--seed", "9" * 19], "--seed: must have at most 18 digits, not '999"),
        (["bias", "x", "--seed", "x"], "--seed: must be a whole number of at least 0, not 'x'"),
        (["bias", "x", "--out", "x.svg"], "--out: must end in .png, not 'x.svg'"),
        (["bias", "x"], "required: --out"),
        (["bias", "x", "--out"], "--out: expected one argument"),
    ],
)
def test_wrong_calls_give_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["plot", *arguments])
    printed = capsys.readouterr().err
    assert printed.startswith("fairseq-rope: error: ") and printed.count("\n") == 1
    assert message in printed and not list(tmp_path.iterdir())
