"""The benchmark of beam search: what is really compared, and that the same model finds the same."""

import pytest
from fairseq.models.transformer import TransformerModel

from fairseq_rope import RoFormerModel
from pipeline.benchmark.decode import Systems
from pipeline.benchmark.models import make_batch
from pipeline.command import Failure

from .measuring import DECODE, FLAGS, SPREAD, measured, options


@pytest.mark.slow
@pytest.mark.long
def test_decode_has_a_row_for_each_system_that_can_compute_the_model(tmp_path, capsys, monkeypatch):
    archs = ["transformer_sinusoidal_tiny", "tupe_r_tiny"]
    what = [*DECODE, "--archs", *archs, "--sentences", "3", "1", "--precisions", "fp32", "bf16"]
    result = measured(tmp_path, capsys, monkeypatch, *what, *FLAGS)
    rows = {(row["sentences"], row["candidate"]): row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) and list(result["rows"][0])[2:6] == SPREAD
    for sentences in (3, 1):
        names = ("stock", *(f"{arch}, stock search" for arch in archs), "stock, bf16")
        stock, *others = (rows[sentences, name] for name in names)
        assert stock["times as fast"] == 1 and all(row["times as fast"] > 0 for row in others)
        assert stock["tokens/s"] == pytest.approx(sentences * 5 / stock["seconds"], rel=1e-2)  # of three digits
    pytest.importorskip("ctranslate2")
    whole, rounded = (row for row in result["rows"] if "CTranslate2" in row["candidate"] and row["sentences"] == 3)
    assert [row["candidate"] for row in (whole, rounded)] == [  # it has no TUPE
        f"{archs[0]}, CTranslate2{kind}" for kind in ("", ", int8")
    ]
    assert whole["share of peak"].endswith("%") and rounded["share of peak"] == "-"


def test_candidates_with_one_function_find_the_same_with_stock_fairseq_and_all_outputs_have_the_length():
    args = options("translation", *FLAGS[1:])
    args.length, args.archs = 5, ["roformer_tiny", "transformer_sinusoidal_tiny"]
    systems = Systems(args)
    assert systems.stock_arch == "fairseq_transformer_tiny", "of the candidates' size"
    assert type(systems.stock) is TransformerModel and type(systems.build("roformer_tiny")) is RoFormerModel
    batch = make_batch("translation", systems.words, sentences=3)
    found = []
    for arch, search in ((systems.stock_arch, "stock search"), ("transformer_sinusoidal_tiny", "fast search")):
        candidate = systems.candidate(arch, search, "fp32")
        found.append([best["tokens"].tolist() for best, *_ in candidate.translate(batch)])
    assert found[0] == found[1] and [len(tokens) for tokens in found[0]] == [6, 6, 6]  # with </s>


def test_candidates_of_several_sizes_are_refused():
    args = options("translation")
    args.archs = ["roformer_tiny", "roformer_base"]
    with pytest.raises(Failure, match="base, tiny"):
        Systems(args)
