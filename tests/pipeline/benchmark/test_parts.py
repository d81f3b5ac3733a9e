"""What all benchmarks share: ratios round by round, batches, operations counted, the machine."""

import torch

from pipeline.benchmark.measuring import compared, interleaved
from pipeline.benchmark.models import about, dictionary, flops, make_batch

from ...helpers import build_felt
from .measuring import CPU


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


def test_a_batch_is_that_of_the_manual():
    """docs/speed.md names its size; the same in each call, with lengths as of WMT."""
    words = dictionary(37000)
    batch = make_batch("translation", words, tokens=2044)
    expected = {"sentences": 73, "source tokens": 2044, "target tokens": 2034, "padding": "2.0%"}
    assert len(words) == 37000 and about(batch, words.pad()) == expected and batch["target"].max() < 37000
    assert batch["target"].ne(words.pad()).sum(dim=1).unique().numel() > 1
    assert torch.equal(batch["target"], make_batch("translation", words, tokens=2044)["target"])
    assert make_batch("translation", words, sentences=5, length=7)["target"].shape == (5, 7)
    large = about(make_batch("translation", words, tokens=25000), words.pad())
    assert float(large["padding"].rstrip("%")) < 5, "a large one, as fairseq makes it of a large corpus"


def test_operations_are_two_for_each_weight_that_a_token_passes():
    model = build_felt("rope")
    c, f = model.encoder.layers[0].fc1.weight.t().shape
    encoder, decoder, vocabulary = len(model.encoder.layers), len(model.decoder.layers), len(model.decoder.dictionary)
    # keys and values of the attention to the encoder are made of source tokens
    source = encoder * (4 * c * c + 2 * c * f) + decoder * 2 * c * c
    target = decoder * (6 * c * c + 2 * c * f) + vocabulary * c
    assert flops(model) == {"source": 2 * source, "target": 2 * target}
    assert flops(build_felt("xl")) == flops(model)  # its projection of distances is none of tokens
