"""The benchmarks' command lines on tiny models: tables and files, refusals."""

import json
import tempfile

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from fairseq.modules import MultiheadAttention
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope import RoFormerModel
from fairseq_rope.attention import PositionalMultiheadAttention
from pipeline.benchmark import criterion, rope
from pipeline.benchmark.__main__ import build_parser, main
from pipeline.benchmark.decode import OWN_CONVERTER
from pipeline.command import Failure

from ...commands import one_line, run
from ...processes import preloaded
from .measuring import CPU, DECODE, FLAGS, SIDES, SPREAD, TRAIN, measured


@pytest.mark.slow
def test_decode_finds_the_same_hypotheses(tmp_path, capsys):
    archs = ["--archs", "transformer_sinusoidal_tiny", "roformer_tiny", "--sentences", "3", "1"]
    result = measured(tmp_path, capsys, *DECODE, *archs, *FLAGS)
    rows = {(row["sentences"], row["candidate"]): row for row in result["rows"]}
    assert len(rows) == len(result["rows"]) and list(result["rows"][0])[2:6] == SPREAD
    for sentences in (3, 1):
        stock, sinusoidal, roformer = (
            rows[sentences, name]
            for name in ("stock", "transformer_sinusoidal_tiny, stock search", "roformer_tiny, stock search")
        )
        assert stock["times as fast"] == 1 and stock["same hypotheses"] == roformer["same hypotheses"] == "-"
        assert sinusoidal["same hypotheses"] == f"{sentences} of {sentences} as stock"
        assert float(sinusoidal["scores differ by"]) < 1e-5
        assert stock["tokens/s"] == pytest.approx(sentences * 5 / stock["seconds"], rel=1e-3)
        assert rows[sentences, "stock, bf16"]["times as fast"] > 0


def test_decode_compares_with_fairseq_and_all_outputs_have_the_length():
    from pipeline.benchmark.batch import make_batch
    from pipeline.benchmark.decode import STOCK, Systems

    args = build_parser().parse_args(DECODE)
    args.flags, args.device = FLAGS[1:], CPU
    systems = Systems(args)
    assert type(systems.stock) is TransformerModel and type(systems.build("roformer_tiny")) is RoFormerModel
    candidate = systems.candidate(STOCK, "stock search", "fp32")
    generator = next(c.cell_contents for c in candidate.translate.__closure__ if hasattr(c.cell_contents, "beam_size"))
    assert type(generator) is SequenceGenerator and generator.beam_size == 4 and generator.len_penalty == 0.6
    assert [len(tokens) for tokens, _ in candidate.translate(make_batch(systems.words, sentences=3))] == [5, 5, 5]


@pytest.mark.slow
def test_decode_measures_ctranslate2_and_its_own_converter(tmp_path, capsys, monkeypatch):
    pytest.importorskip("ctranslate2")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "out").mkdir()
    archs = ["--archs", "transformer_sinusoidal_tiny", "roformer_tiny", "tupe_r_tiny", "--sentences", "3"]
    result = measured(tmp_path / "out", capsys, *DECODE, "--precisions", "fp32", *archs, *FLAGS)
    assert not list((tmp_path / "temporary").iterdir())
    rows = {row["candidate"]: row for row in result["rows"]}
    own, sinusoidal, sinusoidal_8, *roformer = (row for name, row in rows.items() if "CTranslate2" in name)
    assert own["candidate"] == OWN_CONVERTER and own["same hypotheses"] == "-"
    assert sinusoidal["same hypotheses"] == f"3 of 3 as {OWN_CONVERTER}"
    assert float(sinusoidal["scores differ by"]) < 1e-5
    assert [row["candidate"] for row in roformer] == [f"roformer_tiny, CTranslate2{name}" for name in ("", ", int8")]
    for row in (own, sinusoidal, roformer[0]):
        assert row["share of peak"].endswith("%")
        assert row["tokens/s"] == pytest.approx(3 * 5 / row["seconds"], rel=1e-3)  # outputs of equal length
    assert sinusoidal_8["share of peak"] == roformer[1]["share of peak"] == "-"
    assert float(roformer[1]["scores differ by"]) > 1e-6  # it is another precision


def test_rope_compares_with_a_copy(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rope, "CALLS", 1)
    words = ["rope", "--sentences", "2", "--length", "3", "--heads", "2", "--head-dim", "4", "--repeats", "2"]
    result = measured(tmp_path, capsys, *words, "--device", "cpu")
    names = ["copy", "ours, interleaved", "ours, half", "eager, half"]
    assert [row["candidate"] for row in result["rows"]] == names * 4  # two passes in two precisions
    assert all(row["us"] > 0 for row in result["rows"])


def test_rope_and_its_rivals_rotate_alike_in_the_layout_of_the_attention():
    args = build_parser().parse_args(["rope", "--sentences", "2", "--length", "5"])
    args.device = CPU
    q, k = rope.view(args, "fp32"), rope.view(args, "fp32")
    attention = MultiheadAttention(512, 8, self_attention=True)
    split = PositionalMultiheadAttention._split_heads(attention, torch.randn(5, 2, 512))
    assert q.shape == split.shape and q.stride() == split.stride()
    for ours, rival in zip(rope.ours(args, "half")(q, k), rope.eager(args, "fp32")(q, k)):
        torch.testing.assert_close(ours, rival, atol=1e-5, rtol=1e-4)  # angles in fp64 against fp32


def test_attention_compares_with_fairseq_by_length(tmp_path, capsys):
    words = ["attention", "--encodings", "rope", "t5", "--lengths", "4", "8", "--repeats", "2", "--device", "cpu"]
    rows = measured(tmp_path, capsys, *words)["rows"]
    assert [(row["tokens"], row["side"], row["attention"]) for row in rows] == [
        (length, side, name) for length in (4, 8) for side in SIDES for name in ("fairseq", "rope", "t5")
    ]


@pytest.mark.slow
def test_prepare_compares_with_the_libraries_and_makes_the_same_files(tmp_path, capsys, corpus, monkeypatch):
    for name, value in preloaded().items():
        monkeypatch.setenv(name, value)
    words = ["prepare", "--corpus", str(corpus / "train"), "--merges", "100", "--repeats", "2"]
    result = measured(tmp_path, capsys, *words)
    assert result["pairs"] == 400 and result["same files"] is True
    assert [row["step"] for row in result["rows"]][:3] == ["all", "copy", "tokenize"]
    whole = result["rows"][0]
    assert whole["plain chain (s)"] > sum(row["plain chain (s)"] for row in result["rows"][1:]) * 0.8 > 0


@pytest.mark.parametrize(
    "words,message",
    [
        ([*TRAIN, "--archs", "roformer_huge"], "unknown architecture 'roformer_huge'"),
        ([*TRAIN, "--archs", "roformer_tiny:mse"], "unknown criterion 'mse' in 'roformer_tiny:mse'"),
        ([*TRAIN, "--archs", "roformer_tiny@fp8"], "unknown precision 'fp8'"),
        ([*TRAIN, "--", "--encoder-layers", "x"], "fairseq refuses the flags: argument --encoder-layers"),
        ([*TRAIN, *FLAGS, "--encoder-embed-dim", "30"], "requires --encoder-embed-dim to match --decoder-embed-dim"),
        ([*DECODE, "--length", "1024", *FLAGS], "--length must be less than 1024, not 1024"),
        ([*TRAIN, "--vocabulary", "3"], "--vocabulary must be more than the 4 special symbols, not 3"),
        ([*TRAIN, "--repeats", "1"], "--repeats must be at least 2, not 1"),
        ([*TRAIN, "--tokens", "-5"], "--tokens must not be negative"),
        ([*TRAIN, "--out", "nowhere/x.json"], "nowhere: no such folder for --out"),
        ([*TRAIN, "--out", "nowhere"], "nowhere: no such folder for --out; make it, or name a file that ends in .json"),
        ([*DECODE, "--sentences", "0"], "must be at least 1"),
        (["rope", "--head-dim", "3"], "--head-dim even"),
        (["rope", "--", "--encoder-layers", "1"], "rope takes no flags of fairseq-train"),
        (["attention", "--lengths", "0"], "--lengths must be at least 1"),
        (["prepare", "--corpus", "nowhere/x"], "nowhere/x.en not found"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(words, message):
    with pytest.raises(Failure) as failed:
        main(words)
    assert message in str(failed.value) and "\n" not in str(failed.value)


def test_a_file_is_replaced_by_the_same_measurement_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(rope, "CALLS", 1)
    words = ["rope", "--sentences", "2", "--length", "3", "--heads", "2", "--head-dim", "4", "--device", "cpu"]
    main([*words, "--repeats", "2", "--out", str(tmp_path)])
    out = tmp_path / "benchmark-rope-cpu.json"
    before = out.stat().st_mtime_ns
    with pytest.raises(Failure, match=f"{out} has the figures of another command"):
        main([*words, "--repeats", "3", "--out", str(tmp_path)])
    assert out.stat().st_mtime_ns == before
    main([*words, "--repeats", "2", f"--out={out}"])
    assert out.stat().st_mtime_ns > before and json.loads(out.read_text())["command"].endswith(" --out=PATH")
    out.write_text('{"command": 5}')
    with pytest.raises(Failure, match="another command"):
        main([*words, "--repeats", "2", "--out", str(out)])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(Failure, match="--device cuda: PyTorch sees no GPU here"):
        main([*TRAIN[:-1], "cuda"])


def test_the_script_explains_itself_and_refuses_in_one_line():
    script = "scripts/benchmark.sh"
    assert "{train,decode,rope,attention,criterion,prepare}" in run(script, "--help").stdout
    assert "--encodings" in run(script, "attention", "--help").stdout
    for words, message in (
        ([], "are required: {train,decode,rope,attention,criterion,prepare}"),
        (["speed"], "invalid choice: 'speed'"),
        (["rope", "--nonsense"], "--nonsense"),
        (["train", "--precision", "fp8"], "invalid choice: 'fp8'"),
    ):
        failed = run(script, *words, fails=True)
        assert failed.returncode == 2
        one_line(failed, message)


@pytest.mark.parametrize(("precision", "smoothing"), [("fp32", "0.1"), ("bf16", "0.1"), ("fp32", "0")])
def test_both_criteria_have_the_same_gradients(tmp_path, capsys, precision, smoothing):
    sizes = [
        "--tokens",
        "30",
        "--width",
        "16",
        "--vocabulary",
        "50",
        "--precisions",
        precision,
        "--smoothing",
        smoothing,
    ]
    result = measured(tmp_path, capsys, "criterion", *sizes, "--repeats", "2", "--device", "cpu")
    assert [row["loss"] for row in result["rows"]] == list(criterion.LOSSES)
    args = build_parser().parse_args(["criterion", *sizes])
    args.device = CPU
    both = zip(*(criterion.gradients(loss, args, precision)() for loss in criterion.LOSSES.values()))
    for stock, ours in both:
        torch.testing.assert_close(ours, stock, **({"rtol": 0.02, "atol": 0.02} if precision == "bf16" else {}))
    with pytest.raises(Failure, match="--tokens, --width and --vocabulary must be at least 1"):
        main(["criterion", "--tokens", "0"])
    with pytest.raises(Failure, match="--smoothing must be at least 0 and below 1"):
        main(["criterion", "--smoothing", "1"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "autocast"])
def test_everything_runs_on_a_gpu(tmp_path, capsys, precision):
    on_gpu = ["--device", "cuda", "--repeats", "2"]
    train = ["train", "--vocabulary", "100", "--tokens", "100", "--precision", precision, "--memory", *on_gpu]
    rows = measured(tmp_path, capsys, *train, "--archs", "transformer_sinusoidal_tiny", *FLAGS)["rows"]
    assert rows[0]["peak MiB"] > rows[0]["peak MiB above the model"] > 0
    if precision != "autocast":
        decode = ["decode", "--vocabulary", "100", "--length", "5", "--precisions", precision, *on_gpu]
        measured(tmp_path, capsys, *decode, "--archs", "roformer_tiny", *FLAGS)
        measured(tmp_path, capsys, "rope", "--precisions", precision, *on_gpu)
        measured(tmp_path, capsys, "criterion", "--precisions", precision, "--tokens", "100", *on_gpu)
        measured(tmp_path, capsys, "attention", "--lengths", "8", "--precision", precision, *on_gpu)
