"""What all benchmarks share: ratios round by round, batches, operations counted, the table and the file."""

import pytest
import torch

from pipeline.benchmark import machine
from pipeline.benchmark.batch import about, dictionary, make_batch
from pipeline.benchmark.models import flops, same_parameters
from pipeline.benchmark.output import as_table
from pipeline.benchmark.timing import compared, interleaved
from pipeline.command import Failure

from ...helpers import build_felt

CPU = torch.device("cpu")


def test_candidates_run_in_turn_and_every_other_round_backwards():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "ab"}, 3, CPU)
    assert "".join(calls) == "ab" + "ba" + "ab" + "ba" and [len(times) for times in seconds.values()] == [3, 3]


def test_ratios_are_of_the_same_round():
    slow_machine_in_the_second_round = {"base": [1.0, 10.0, 1.0], "ours": [0.5, 5.0, 0.5]}
    columns = compared(slow_machine_in_the_second_round, "base")
    assert columns["ours"]["times as fast"] == 2 and columns["ours"]["quartiles"] == "2.0 to 2.0"
    assert columns["ours"]["seconds"] == 0.5 and columns["ours"]["quartiles (s)"] == "0.5 to 2.75"
    assert columns["base"]["times as fast"] == 1


def test_a_batch_has_the_lengths_of_wmt_and_little_padding():
    words = dictionary(37000)
    assert len(words) == 37000
    batch = make_batch(words, tokens=2044)
    size = about(batch, words.pad())
    assert abs(size["target tokens"] - 2044) < 100 and float(size["padding"].rstrip("%")) < 10
    lengths = batch["target"].ne(words.pad()).sum(dim=1)
    assert lengths.unique().numel() > 1 and 20 < lengths.float().mean() < 40
    assert size["target tokens"] == batch["ntokens"] and batch["target"].max() < 37000
    assert torch.equal(batch["target"], make_batch(words, tokens=2044)["target"])


def test_a_batch_has_the_size_that_is_asked_for():
    words = dictionary(100)
    assert make_batch(words, sentences=5, length=7)["target"].shape == (5, 7)
    assert make_batch(words, tokens=70, length=7)["target"].shape == (10, 7)
    assert make_batch(words, sentences=5)["target"].size(0) == 5
    with pytest.raises(Failure, match="larger than the pool"):
        make_batch(words, sentences=10**6)
    with pytest.raises(Failure, match="more than the 4 special symbols, not 4"):
        dictionary(4)


def test_operations_are_two_for_each_weight_that_a_token_passes():
    model = build_felt("rope")
    c, f = model.encoder.layers[0].fc1.weight.t().shape
    encoder, decoder, vocabulary = len(model.encoder.layers), len(model.decoder.layers), len(model.decoder.dictionary)
    # keys and values of the attention to the encoder are made of source tokens
    source = encoder * (4 * c * c + 2 * c * f) + decoder * 2 * c * c
    target = decoder * (6 * c * c + 2 * c * f) + vocabulary * c
    assert flops(model) == {"source": 2 * source, "target": 2 * target}
    assert flops(build_felt("xl")) == flops(model)  # its projection of distances is none of tokens


def test_operations_of_language_models_are_those_of_the_tokens_that_pass():
    """A causal model projects every token to the vocabulary; a masked one, those that it predicts."""
    for kind in ("lm", "mlm"):
        model = build_felt("rope", kind)
        layers = (model.decoder if kind == "lm" else model.encoder.sentence_encoder).layers
        c, f = layers[0].fc1.weight.t().shape
        stack = len(layers) * (4 * c * c + 2 * c * f)
        vocabulary = len((model.decoder if kind == "lm" else model.encoder).dictionary)
        if kind == "lm":
            assert flops(model) == {"source": 0, "target": 2 * (stack + vocabulary * c)}
        else:
            assert flops(model) == {"source": 2 * stack, "target": 2 * (c * c + vocabulary * c)}


def test_models_that_differ_in_computed_positions_only_have_the_same_parameters():
    rope, sinusoidal, learned = (build_felt(name) for name in ("rope", "sinusoidal", "learned"))
    assert same_parameters(sinusoidal, rope) and not same_parameters(learned, rope)
    for model in (sinusoidal, learned):
        assert torch.equal(model.encoder.layers[0].fc1.weight, rope.encoder.layers[0].fc1.weight)


def test_the_machine_is_described_and_its_peak_measured():
    found = machine.describe(CPU)
    assert found["cpu"] and found["threads"] == torch.get_num_threads() and found["torch"] == torch.__version__
    rates = machine.peaks(["bf16", "autocast"], CPU)
    assert rates["bf16"] == rates["autocast"] > 0


def test_the_peak_is_measured_without_products_that_would_take_too_long(monkeypatch):
    monkeypatch.setattr(machine, "SECONDS", 0.0)
    monkeypatch.setattr(machine, "SIZES", {"cpu": (8, 10**6)})  # the larger one finds no memory
    assert machine.matmul_peak(torch.float32, CPU) > 0


def test_a_row_is_a_line_of_the_table():
    rows = [{"name": "a", "ratio": 1.5}, {"name": "b", "ratio": 2}]
    assert as_table(rows) == "| name | ratio |\n| --- | --- |\n| a | 1.5 |\n| b | 2 |"
