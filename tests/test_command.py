"""The command ``fairseq-rope``: what it prints, and how it fails. Its subcommands' work is tested where it is done."""

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

from .commands import ENVIRONMENT, ROOT, failure
from .helpers import build

PROCESS = [sys.executable, "-m", "fairseq_rope"]


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


def test_a_number_that_needs_too_much_memory_is_one_line(tmp_path, capsys):
    for words in (["info", "--vocabulary", f"{10**15}"], ["plot", "decay", "--rope-dim", f"{10**15}"]):
        out = ["--out", str(tmp_path / "a.png")] if words[0] == "plot" else []
        assert failure(capsys, *words, *out) == "fairseq-rope: error: not enough memory: choose smaller numbers\n"
    assert not list(tmp_path.iterdir())


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


@pytest.mark.slow
def test_the_output_of_a_process_is_clean_also_where_nobody_reads_it():
    """As ``fairseq-rope | true``, ``fairseq-rope >&-`` and an error; nothing of fairseq's import on the screen."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONWARNINGS"}
    words = [*PROCESS, "info", "--user-dir"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 0
    closed = subprocess.run(["bash", "-c", f"{' '.join(words)} >&-"], capture_output=True, text=True, env=environment)
    assert (closed.returncode, closed.stderr) == (0, "")
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
