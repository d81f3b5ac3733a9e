"""The benchmark of beam search: what is really compared, and that the same model finds the same."""

import pytest
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope import RoFormerModel
from pipeline.benchmark.decode import STOCK, Systems
from pipeline.benchmark.models import make_batch

from .measuring import DECODE, FLAGS, SPREAD, measured, options


@pytest.mark.slow
@pytest.mark.long
def test_decode_finds_the_same_hypotheses(tmp_path, capsys, monkeypatch):
    archs = ["transformer_sinusoidal_tiny", "tupe_r_tiny"]
    what = [*DECODE, "--archs", *archs, "--sentences", "3", "1", "--precisions", "fp32", "bf16"]
    result = measured(tmp_path, capsys, monkeypatch, *what, *FLAGS)
    rows = {(row["sentences"], row["candidate"]): row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) and list(result["rows"][0])[2:6] == SPREAD
    for sentences in (3, 1):
        names = ("stock", *(f"{arch}, stock search" for arch in archs), "stock, bf16")
        stock, sinusoidal, tupe, half = (rows[sentences, name] for name in names)
        assert stock["times as fast"] == 1 and stock["same hypotheses"] == tupe["same hypotheses"] == "-"
        assert sinusoidal["same hypotheses"] == f"{sentences} of {sentences} as stock"
        assert float(sinusoidal["scores differ by"]) < 1e-5 and half["times as fast"] > 0
        assert stock["tokens/s"] == pytest.approx(sentences * 5 / stock["seconds"], rel=1e-2)  # of three digits
    pytest.importorskip("ctranslate2")
    whole, rounded = (row for row in result["rows"] if "CTranslate2" in row["candidate"] and row["sentences"] == 3)
    assert [row["candidate"] for row in (whole, rounded)] == [  # it has no TUPE
        f"{archs[0]}, CTranslate2{kind}" for kind in ("", ", int8")
    ]
    assert whole["share of peak"].endswith("%") and rounded["share of peak"] == "-"
    assert float(rounded["scores differ by"]) > 1e-6  # another precision
    assert whole["tokens/s"] == pytest.approx(3 * 5 / whole["seconds"], rel=1e-2)  # outputs of equal length


def test_stock_is_fairseqs_model_and_search_and_all_outputs_have_the_length():
    args = options("translation", *FLAGS[1:])
    args.length = 5
    systems = Systems(args)
    assert type(systems.stock) is TransformerModel and type(systems.build("roformer_tiny")) is RoFormerModel
    candidate = systems.candidate(STOCK, "stock search", "fp32")
    generator = next(c.cell_contents for c in candidate.translate.__closure__ if hasattr(c.cell_contents, "beam_size"))
    assert type(generator) is SequenceGenerator and generator.beam_size == 4 and generator.len_penalty == 0.6
    batch = make_batch("translation", systems.words, sentences=3)
    assert [len(tokens) for tokens, _ in candidate.translate(batch)] == [5, 5, 5]
