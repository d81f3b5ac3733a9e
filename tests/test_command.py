"""The command ``fairseq-rope``: what it prints, and how it fails. Its subcommands' work is tested where it is done."""

import pytest

from fairseq_rope import __main__ as command
from fairseq_rope.__main__ import main
from fairseq_rope.architectures import ARCHITECTURES, match_architectures
from fairseq_rope.kinds import SIZES
from fairseq_rope.options import SIDES

from .commands import ROOT, run
from .helpers import build


def test_info_counts_with_the_vocabulary_that_is_asked_for(monkeypatch, capsys):
    smallest = {name: arch for name, arch in ARCHITECTURES.items() if name.endswith("_tiny")}  # large ones take a while
    monkeypatch.setattr(command.info, "ARCHITECTURES", smallest)
    assert main(["info", "--vocabulary", "1000"]) == 0
    printed, error = capsys.readouterr()
    assert error == "" and printed.startswith(f"--user-dir {ROOT / 'fairseq_rope'}\n")
    counts = {line.split()[0]: line.split()[-1] for line in printed.splitlines() if "_tiny " in line}
    sizes = {f"{side}_{name}": size for side in SIDES for name, size in (("embed_dim", 128), ("ffn_embed_dim", 256))}
    model = build("roformer_tiny", types=1000, **sizes)
    assert counts["roformer_tiny"] == f"{sum(p.numel() for p in model.parameters()):,}"
    assert counts.keys() == {*match_architectures(["*_tiny"]), "fairseq_transformer_tiny"}


@pytest.mark.slow
def test_nobody_has_to_read_what_it_prints():
    assert run("bash", "-c", "set -o pipefail; fairseq-rope info --user-dir | true").stderr == ""


def test_patterns_stand_for_the_architectures_of_this_package_each_once():
    bases = [name for name in ARCHITECTURES if name.endswith("_base") and "lm_base" not in name]
    others = [name for name in bases if name != "roformer_base"]
    assert match_architectures(["roformer_base", "*_base", "roformer_base"]) == ["roformer_base", *others]
    assert match_architectures(["tupe_a_*"]) == [f"tupe_a_{size}" for size in SIZES]
    assert match_architectures(["transformer_iwslt_de_en"]) == ["transformer_iwslt_de_en"]  # fairseq's, by its name
    assert match_architectures(["tupe_?_mlm_small", "t*xl_lm_tiny"]) == [
        *("tupe_a_mlm_small", "tupe_r_mlm_small", "transformer_xl_lm_tiny")
    ]
    for unknown in ("roformer", "*_small", "transformer_iwslt_*"):
        with pytest.raises(ValueError, match="fairseq-rope info"):
            match_architectures(["roformer_base", unknown])
