"""The plugin under fairseq's own command lines, on a small corpus."""

import os
import shutil
import sys

import pytest
import torch

from .commands import ENVIRONMENT, ROOT, TRAIN, fairseq, hypotheses, parameters, run
from .training.test_updates import FUSED

pytestmark = pytest.mark.slow


def test_a_run_that_is_resumed_equals_one_that_was_not_bit_by_bit(data, tmp_path):
    common = ["--arch", "roformer_tiny", *TRAIN, *FUSED, "--save-interval-updates", "4"]
    fairseq("train", data, *common, "--max-update", 8, "--save-dir", tmp_path / "whole")
    fairseq("train", data, *common, "--max-update", 4, "--save-dir", tmp_path / "parts")
    fairseq("train", data, *common, "--max-update", 8, "--save-dir", tmp_path / "parts")
    whole, parts = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())


def test_a_run_with_bleu_in_validation_resumes(data, tmp_path):
    """Its checkpoints hold NumPy numbers, which safe loading would refuse."""
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}', "--eval-bleu-detok", "space"]
    common = ["--arch", "roformer_tiny", *TRAIN, *bleu, "--save-dir", tmp_path]
    fairseq("train", data, *common, "--max-update", 2)
    fairseq("train", data, *common, "--max-update", 4)
    fairseq("generate", data, "--path", tmp_path / "checkpoint_last.pt", "--batch-size", 9)


TOY = """
from dataclasses import dataclass, field

import torch
from torch import nn

from .base import PositionEncoding
from .relative import distances


@dataclass(frozen=True)
class ToyOptions:
    slope: float = field(default=0.5, metadata={"help": "initial slope per token"})


class ToyEncoding(PositionEncoding):
    Options = ToyOptions
    prefix = "toy"

    def __init__(self, config, options):
        super().__init__(config, options)
        self.slope = nn.Parameter(torch.tensor([options.slope]))

    def prepare(self, query, key):
        return {"bias": self.slope * distances(query, key)[:, None]}
"""


@pytest.mark.long
def test_a_new_encoding_takes_one_file_one_registry_line_and_one_test_row(data, tmp_path):
    """Flags, architectures of every size and the contract tests follow; it trains through fairseq-train."""
    for name in ("fairseq_rope", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # how pytest finds modules
    (tmp_path / "fairseq_rope/positions/toy.py").write_text(TOY)
    registry, cases = "fairseq_rope/positions/__init__.py", "tests/positions/test_paper_cases.py"
    case = "Case(lambda at, i, j: equations.plain(at, i, j) + at.encoding.slope[0] * (j - i))"
    for file, before, line in (
        (registry, "from .tupe", "from .toy import ToyEncoding\n"),
        (registry, '    "none"', '    "toy": ToyEncoding,\n'),
        (cases, '    "none"', f'    "toy": {case},\n'),
    ):
        text = (tmp_path / file).read_text()
        assert text.count(f"\n{before}") == 1
        (tmp_path / file).write_text(text.replace(f"\n{before}", f"\n{line}{before}"))
    tests = ["-vv", "-p", "no:cacheprovider", "tests/positions", "-k", "toy"]
    program = f"import pytest; from fairseq_cli.train import cli_main; pytest.main({tests}); cli_main()"
    train = ["--user-dir", tmp_path / "fairseq_rope", "--arch", "transformer_toy_tiny", "--toy-slope", 0.25, *TRAIN]
    train += ["--max-update", 1, "--save-dir", tmp_path / "run"]
    environ = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "scripts")])}
    done = run(sys.executable, "-c", program, data / "bin", *train, cwd=tmp_path, env=environ)
    for name in ("full_pass_equals_step_by_step", "every_parameter_gets_a_gradient", "equals_the_papers_equation"):
        assert any(name in line and "PASSED" in line for line in done.stdout.splitlines()), name
    trained = parameters(tmp_path / "run/checkpoint_last.pt")["encoder.position.slope"]
    assert trained.item() != 0.25 and abs(trained.item() - 0.25) < 0.02


def test_generate_interactive_validate_and_translate_agree(data, trained, corpus):
    path = ["--path", trained / "checkpoint.pt"]
    search = ["--beam", 4, "--lenpen", 0.6, "--required-batch-size-multiple", 1]
    generated = hypotheses(fairseq("generate", data, *path, *search, "--post-process", "subword_nmt").stdout)
    assert len(generated) == 21
    options = [*path, *search[:4], "--post-process", "subword_nmt", "--buffer-size", 30]
    interactive = fairseq("interactive", data, *options, input=(data / "bpe/test.en").read_text()).stdout
    assert hypotheses(interactive) == generated
    fairseq("validate", data, *path, "--task", "translation", "--max-tokens", 900, "--valid-subset", "valid")

    run("scripts/score.sh", "--run", trained, "--data", data)
    scored = (trained / "scores/test.hyp.de").read_text()
    raw = (corpus / "test.en").read_text()
    translated = run("scripts/translate.sh", trained, "--engine", "fairseq", input="\n" + raw).stdout
    assert translated == "\n" + scored  # an empty line stays empty


def test_from_python(data, trained):
    code = (
        "from fairseq_rope import RoFormerModel; import sys;"
        "m = RoFormerModel.from_pretrained("
        "sys.argv[1], 'checkpoint.pt', sys.argv[2], tokenizer='moses', bpe='subword_nmt');"
        "print(repr(m.translate('The dog sees the cat.', beam=2)))"
    )
    environ = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONWARNINGS"}
    done = run(sys.executable, "-c", code, trained, data / "bin", env=environ)
    assert done.stdout.startswith(("'", '"')) and done.stdout.count("\n") == 1
    assert done.stderr == "", "no library's log lines or warnings"
