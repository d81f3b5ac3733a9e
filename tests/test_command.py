"""The command ``fairseq-rope``: what it prints, and how it fails. Its subcommands' work is tested where it is done."""

import argparse
import logging
import os
import signal
import subprocess
import sys
import warnings

import pytest
import torch

import fairseq_rope
from fairseq_rope import __main__ as command
from fairseq_rope.__main__ import main
from fairseq_rope.architectures import ARCHITECTURES, SIZES, match_architectures
from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint
from fairseq_rope.positions.rope import convert_layout

from .commands import ENVIRONMENT, ROOT
from .disks import full_disk, read_only
from .helpers import build, build_with

PROCESS = [sys.executable, "-m", "fairseq_rope"]


def failure(capsys, *arguments, status=1):
    """The message of a call that fails, in one line."""
    try:
        assert main([str(argument) for argument in arguments]) == status
    except SystemExit as exit_:
        assert exit_.code == status == 2
    printed, message = capsys.readouterr()
    assert message.startswith("fairseq-rope: error: ") and message.count("\n") == 1 and printed == ""
    return message


def checkpoint(path, value=1.0, **changes):
    cfg = argparse.Namespace(arch="x")
    save_checkpoint({"args": cfg, "cfg": None, "model": {"w": torch.full((2,), value)}, **changes}, path)
    return path


def test_info_counts_with_the_vocabulary_that_is_asked_for(capsys):
    assert main(["info", "--vocabulary", "1000"]) == 0
    printed, error = capsys.readouterr()
    assert error == "" and printed.startswith(f"--user-dir {ROOT / 'fairseq_rope'}\n")
    counts = {line.split()[0]: line.split()[-1] for line in printed.splitlines() if "_tiny " in line}
    assert counts["roformer_tiny"] == f"{sum(p.numel() for p in tiny(1000).parameters()):,}"
    assert counts.keys() == {*match_architectures(["*_tiny"]), "fairseq_transformer_tiny"}
    assert printed.splitlines()[-7:] == [
        *(f"..._mlm_{size}" for size in ("base", "small", "tiny")),
        *(f"..._lm_{size}" for size in ("base", "small", "tiny", "enwik8")),
    ]
    assert "one shared vocabulary of 1,000 types" in printed


def test_info_prints_the_folder_for_user_dir_alone(capsys):
    assert main(["info", "--user-dir"]) == 0
    assert capsys.readouterr() == (f"{ROOT / 'fairseq_rope'}\n", "")
    assert "--vocabulary: not allowed with" in failure(capsys, "info", "--user-dir", "--vocabulary", 9, status=2)


def tiny(vocabulary):
    """roformer_tiny, as large as it is with this vocabulary."""
    model = build(
        "roformer_tiny",
        encoder_embed_dim=128,
        decoder_embed_dim=128,
        encoder_ffn_embed_dim=256,
        decoder_ffn_embed_dim=256,
    )
    model.encoder.embed_tokens.weight = torch.nn.Parameter(torch.zeros(vocabulary, 128))
    model.decoder.embed_tokens.weight = model.decoder.output_projection.weight = model.encoder.embed_tokens.weight
    return model


def test_a_vocabulary_without_room_for_the_special_symbols_is_refused(capsys):
    message = failure(capsys, "info", "--vocabulary", 3, status=2)
    assert "--vocabulary: must be a whole number of at least 4, not '3' (see fairseq-rope info --help)" in message


def test_options_are_listed(capsys):
    assert main(["options"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("none: ") and "--rope-base" in printed and "--t5-buckets" in printed


def test_averages_the_last_of_a_folder_or_the_files_given(tmp_path, capsys):
    for update in (2, 10, 20, 30):
        checkpoint(tmp_path / f"checkpoint_1_{update}.pt", float(update))
    checkpoint(tmp_path / "checkpoint1.pt", 7.0)
    out = ["--out", str(tmp_path / "new/out.pt")]

    def mean(*arguments):
        assert main(["average", *map(str, arguments), *out]) == 0
        return load_checkpoint(tmp_path / "new/out.pt")["model"]["w"][0].item()

    assert mean(tmp_path, "--last", 2) == 25
    assert capsys.readouterr() == (f"{out[1]}: average of checkpoint_1_20.pt, checkpoint_1_30.pt\n", "")
    assert mean(tmp_path, "--last", 2, "--upper", 20) == 15
    assert mean(tmp_path, "--last", 1, "--by", "epochs") == 7
    assert mean("--inputs", tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_1_10.pt") == 6
    checkpoint(tmp_path / "checkpoint_1_38.pt", 38.0)
    assert mean(tmp_path) == (2 + 10 + 20 + 30 + 38) / 5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.pt"]


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["F"], 2, "--out"),
        (["--out", "O"], 2, "one of the arguments FOLDER --inputs is required"),
        (["F", "--inputs", "A", "--out", "O"], 2, "not allowed with argument"),
        (["F", "--last", "0", "--out", "O"], 2, "--last: must be a whole number of at least 1, not '0'"),
        (["F", "--by", "hours", "--out", "O"], 2, "--by: invalid choice: 'hours'"),
        (["F", "--la", "2", "--out", "O"], 2, "unrecognized arguments: --la"),
        (["--inputs", "A", "--last", "5", "--out", "O"], 2, "leave them out with --inputs (see fairseq-rope average"),
        (["--inputs", "A", "--by", "updates", "--out", "O"], 2, "leave them out with --inputs"),
        (["--inputs", "A", "--upper", "0", "--out", "O"], 2, "leave them out with --inputs"),
        (["--inputs", "A", "--out", "O"], 1, "A: no such checkpoint"),
        (["F", "--out", "O"], 1, "F: no such folder"),
        ([".", "--upper", "9", "--out", "O"], 1, ".: 0 checkpoints by updates up to 9, but 5 are to be averaged"),
    ],
)
def test_wrong_averages_are_refused(tmp_path, monkeypatch, capsys, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    assert message in failure(capsys, "average", *arguments, status=status)
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_is_named(tmp_path, capsys):
    source, folder = checkpoint(tmp_path / "a.pt"), tmp_path / "folder"
    folder.mkdir()
    assert str(folder) in failure(capsys, "average", "--inputs", source, "--out", folder)
    assert sorted(tmp_path.iterdir()) == [source, folder] and not list(folder.iterdir())


@pytest.mark.parametrize("dim", [0, 4])  # the whole head of 8 channels, or a part
def test_converts_between_the_layouts_of_rope_and_says_what_is_lost(tmp_path, capsys, dim):
    model = build_with("rope", rope_dim=dim)
    cfg = argparse.Namespace(arch="roformer_tiny", encoder_position="rope", decoder_position="rope", rope_dim=dim)
    vars(cfg).update(encoder_attention_heads=4, decoder_attention_heads=4, encoder_embed_dim=32, decoder_embed_dim=32)
    state = {"cfg": {"model": cfg}, "model": model.state_dict(), "last_optimizer_state": {}}
    save_checkpoint(state, tmp_path / "a.pt")
    source, out = str(tmp_path / "a.pt"), str(tmp_path / "b.pt")
    assert main(["convert", source, "--to", "half", "--out", out]) == 0
    assert capsys.readouterr() == (f"{out}: {source} in the layout half, without the optimizer's state\n", "")
    converted = load_checkpoint(tmp_path / "b.pt")
    expected = model.state_dict()
    for side in ("encoder", "decoder"):
        expected = convert_layout(expected, 4, dim or 8, "half", side)
    assert all(torch.equal(value, expected[name]) for name, value in converted["model"].items())
    assert converted["cfg"]["model"].rope_layout == "half"
    assert main(["convert", out, "--to", "interleaved", "--out", source]) == 0
    assert capsys.readouterr().out == f"{source}: {out} in the layout interleaved\n"
    assert "in the layout half already" in failure(capsys, "convert", out, "--to", "half", "--out", tmp_path / "c.pt")
    assert not (tmp_path / "c.pt").exists()


def test_a_form_that_does_not_exist_is_refused(tmp_path, capsys):
    message = failure(capsys, "convert", "a.pt", "--to", "pytorch", "--out", tmp_path / "b.pt", status=2)
    assert "--to: invalid choice: 'pytorch'" in message


def test_an_unknown_command_is_refused(capsys):
    assert "invalid choice: 'avrage'" in failure(capsys, "avrage", status=2)


def test_errors_of_several_lines_are_one_line(monkeypatch, capsys):
    def fail():
        raise ValueError("first\nsecond")

    monkeypatch.setattr(command.info, "options", fail)
    assert failure(capsys, "options") == "fairseq-rope: error: first second\n"


def test_reports_of_other_packages_stay_off_the_screen_and_come_back(monkeypatch, capsys, caplog):
    def talk():
        warnings.warn("deprecated", stacklevel=1)
        logging.getLogger("fairseq").info("loading")
        return "done"

    monkeypatch.setattr(command.info, "options", talk)
    caplog.set_level(logging.INFO)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(["options"]) == 0
        assert not caught and not caplog.records
        talk()
        assert caught and caplog.records
    assert capsys.readouterr() == ("done\n", "")


def test_a_full_output_is_said_once(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["options"]) == 1
    assert capsys.readouterr().err == "fairseq-rope: error: the output: No space left on device\n"


def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_written(tmp_path, capsys):
    name = os.fsdecode(b"a\xff.pt")
    assert "error: 'a\\udcff.pt' is not UTF-8: rename the file" in failure(capsys, "average", ".", "--out", name)
    assert not (tmp_path / name).exists()


def test_ctrl_c_ends_it_in_silence(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(command.info, "options", interrupt)
    assert main(["options"]) == 128 + signal.SIGINT and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("free", [0, 1024])
def test_a_disk_without_room_for_an_average_is_named_and_stays_as_it_is(tmp_path, capsys, free):
    source = checkpoint(tmp_path / "a.pt", w=torch.zeros(5000))
    with full_disk(tmp_path / "full", free) as disk:
        message = failure(capsys, "average", "--inputs", source, "--out", disk / "out.pt")
        assert f"{disk / 'out.pt'}: " in message and [path.name for path in disk.iterdir()] == ["fill"]
    with read_only(tmp_path):
        message = failure(capsys, "average", "--inputs", source, "--out", tmp_path / "out.pt")
    assert message == f"fairseq-rope: error: {tmp_path / 'out.pt'}: Read-only file system\n"


@pytest.mark.slow
def test_without_a_command_it_says_what_there_is_and_a_closed_pipe_is_no_error():
    """As ``fairseq-rope | head -1``; nothing of fairseq's import on the screen."""
    process = subprocess.Popen(PROCESS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 0


@pytest.mark.slow
def test_help_and_errors_of_a_process_are_clean():
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run([*PROCESS, "average", "--help"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage: fairseq-rope average")
    failed = subprocess.run([*PROCESS, "average"], capture_output=True, text=True, env=environment)
    assert failed.returncode == 2 and failed.stdout == "" and failed.stderr.count("\n") == 1


def test_patterns_stand_for_the_architectures_of_this_package_each_once():
    bases = [name for name in ARCHITECTURES if name.endswith("_base") and "lm_base" not in name]
    assert match_architectures(["*_base"]) == bases
    others = [name for name in bases if name != "roformer_base"]
    assert match_architectures(["roformer_base", "*_base", "roformer_base"]) == ["roformer_base", *others]
    assert match_architectures(["tupe_a_*"]) == [f"tupe_a_{size}" for size in SIZES]
    assert match_architectures(["transformer_iwslt_de_en"]) == ["transformer_iwslt_de_en"]  # fairseq's, by its name
    assert match_architectures([]) == []
    assert match_architectures(["tupe_?_mlm_small", "t*xl_lm_*"]) == [
        *("tupe_a_mlm_small", "tupe_r_mlm_small"),
        *(f"transformer_xl_lm_{size}" for size in ("base", "small", "tiny", "enwik8")),
    ]
    for unknown in ("roformer", "roformer_lm", "*_small", "transformer_iwslt_*"):
        with pytest.raises(ValueError, match=r"unknown architecture '.*': `fairseq-rope info` lists them"):
            match_architectures(["roformer_base", unknown])


def test_the_version_is_that_of_the_package():
    assert fairseq_rope.__version__ == "0.2.0"
