"""Pictures of what positions contribute: the numbers against their formulas, and the files."""

import cmath
import struct
import sys

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.inspection.terms import (
    by_distance,
    draw_sentences,
    load_model,
    long_term_decay,
    position_bias,
    tupe_correlations,
)
from fairseq_rope.positions.alibi import slopes

from ..helpers import SOFTMAX, VOCABULARY, build_felt, build_with, task
from ..model_folders import run_folder

DISTANCE = torch.arange(9) - torch.arange(9)[:, None]  # j - i, (9, 9)
EARLIER = DISTANCE <= 0


def centred(bias, seen):
    """``bias`` without the mean of each row over the keys that are seen, nan for the others."""
    bias = bias.double().masked_fill(~seen, float("nan"))
    return bias - bias.nanmean(-1, keepdim=True)


def without_content(model):
    """The same model, with queries and keys of 0: only what an encoding adds to the logits is left."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "self_attn.q_proj" in name or "self_attn.k_proj" in name:
                parameter.zero_()
    return model


def close(actual, expected):
    torch.testing.assert_close(actual, expected.to(actual.dtype), equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim,base", [(2, 10000.0), (8, 100.0), (64, 10000.0)])
def test_the_decay_is_the_mean_of_the_partial_sums(dim, base):
    def partial_sum(m, distance):
        return sum(cmath.exp(1j * distance * base ** (-2 * n / dim)) for n in range(m))

    pairs = dim // 2
    expected = [sum(abs(partial_sum(m, r)) for m in range(1, pairs + 1)) / pairs for r in range(41)]
    decay = long_term_decay(dim, base, 40)
    torch.testing.assert_close(decay, torch.tensor(expected, dtype=torch.double), rtol=0, atol=1e-5)
    assert decay[0] == (pairs + 1) / 2  # the mean of 1, ..., d/2


def test_the_bound_decays_at_the_dimension_and_base_of_the_paper():
    decay = long_term_decay(128, 10000.0, 250)
    assert len(decay) == 251
    assert decay[:50].mean() > decay[100:150].mean() > decay[200:].mean()


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((7, 100.0, 5), "--rope-dim must be even, not 7"),
        ((8, 1.0, 5), "--rope-base must be greater than 1"),
        ((8, 100.0, 0), "--max-distance must be at least 1"),
    ],
)
def test_numbers_that_have_no_decay_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        long_term_decay(*arguments)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("encoding", ["tupe_a", "tupe_r"])
@pytest.mark.parametrize("reset", [True, False])
def test_tupe_s_correlations_are_the_formula_with_the_special_symbol_where_it_stands(encoding, side, reset):
    """Its row has one number for each head, and its column another one."""
    model = build_felt(encoding, tupe_no_reset=not reset)
    position = getattr(model, side).position
    p = position.norm(position.table[:11])  # two rows are for the reset
    q, k = (project(p).view(11, 4, 8).transpose(0, 1) for project in (position.q_proj, position.k_proj))
    theta_1, theta_2, expected = (
        q[:, i] @ k[:, j].transpose(-2, -1) / 16**0.5 for i, j in (([0], [0]), ([1], [1]), (slice(2, 11),) * 2)
    )
    relative = torch.zeros(4, 34)
    bucket = torch.where(EARLIER, -DISTANCE, 0)
    if encoding == "tupe_r":  # 9 positions are too few for logarithmic buckets
        relative = position.relative.t()
        later = DISTANCE.clamp(min=0) + 16 * (DISTANCE > 0)
        bucket = torch.where(EARLIER, -DISTANCE, later if side == "encoder" else 0)
    expected = expected + relative[:, bucket]
    if reset:
        symbol = 8 if side == "encoder" else 0
        expected[:, :, symbol] = (theta_2 + relative[:, 32, None, None])[..., 0]
        expected[:, symbol] = (theta_1 + relative[:, 33, None, None])[..., 0]
    if side == "decoder":
        expected = expected.masked_fill(~EARLIER, float("nan"))
    close(tupe_correlations(model, side, 9), expected.detach())


def test_tupe_s_correlations_are_its_effective_bias_when_content_has_none():
    model = without_content(build_felt("tupe_r", tupe_no_reset=True))  # no symbol occurs in the other measurement
    for side, seen in (("encoder", EARLIER | True), ("decoder", EARLIER)):
        expected = centred(tupe_correlations(model, side, 9), seen)
        close(position_bias(model, side, 9, 3), expected.expand(2, -1, -1, -1))


def test_correlations_that_do_not_exist_are_refused():
    model = build_with("tupe_a", decoder_position="rope")
    with pytest.raises(ValueError, match="the decoder has the encoding rope, which learns no correlations"):
        tupe_correlations(model, "decoder", 9)
    with pytest.raises(ValueError, match="--length must be between 1 and 64, the rows of the encoder's table, not 65"):
        tupe_correlations(model, "encoder", 65)


def test_the_effective_bias_of_alibi_is_its_slopes():
    model = without_content(build_with("alibi"))
    expected = -slopes(4)[:, None, None] * DISTANCE.abs()
    for side, seen in (("encoder", EARLIER | True), ("decoder", EARLIER)):
        bias = position_bias(model, side, 9, sentences=40)
        assert bias.shape == (2, 4, 9, 9)
        close(bias, centred(expected, seen).expand(2, -1, -1, -1))
    lines = -slopes(4)[:, None] * torch.arange(-8, 9).abs()
    lines[:, 9:] = float("nan")  # the decoder sees nothing later
    close(by_distance(bias), lines.expand(2, -1, -1))


def test_keys_that_a_head_does_not_see_are_left_out_of_the_row_s_mean():
    model = without_content(build_with("alibi", alibi_split_directions=True, decoder_position="none"))
    bias = position_bias(model, "encoder", 9, 2)
    expected = -slopes(2)[:, None, None] * DISTANCE.abs()
    close(bias[0, :2], centred(expected, EARLIER))
    close(bias[0, 2:], centred(expected, DISTANCE >= 0))


def test_no_positions_have_no_effective_bias():
    close(position_bias(without_content(build_with("none")), "encoder", 9, 5), torch.zeros(2, 4, 9, 9))
    # with content, chance falls with the number of sentences; but a word meets itself on the diagonal
    model = build_with("none", seed=4)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.self_attn.q_proj.weight.mul_(2)
            layer.self_attn.k_proj.weight.copy_(layer.self_attn.q_proj.weight)
    bias = position_bias(model, "encoder", 9, 3000)[0]
    off, on = bias[:, ~torch.eye(9, dtype=torch.bool)].view(4, 9, 8), bias.diagonal(dim1=-2, dim2=-1)
    assert (off - off.mean(-1, keepdim=True)).abs().max() < 0.2 < 1 < (on - off.mean(-1)).min()


@pytest.mark.parametrize("encoding", SOFTMAX)
def test_every_encoding_is_measured_and_the_model_stays_as_it_was(encoding):
    model = build_felt(encoding)
    for side, seen in (("encoder", EARLIER | True), ("decoder", EARLIER)):
        bias = position_bias(model, side, 9, 4)
        assert torch.equal(bias.isfinite(), seen.expand(2, 4, -1, -1))
        torch.testing.assert_close(bias.nansum(-1), torch.zeros(2, 4, 9, dtype=torch.double))
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_the_seed_decides_the_sentences():
    model = build_felt("rope")
    first, again, other = (position_bias(model, "decoder", 5, 3, seed).nan_to_num() for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_words_are_drawn_with_the_dictionary_s_frequencies_and_no_special_symbols():
    dictionary = task().source_dictionary
    dictionary.count = [1000] * 4 + [0] * (VOCABULARY - 6) + [1, 3]
    words = draw_sentences(dictionary, 200, 50, torch.Generator().manual_seed(1))
    assert words.shape == (200, 50)
    assert words.unique().tolist() == [VOCABULARY - 2, VOCABULARY - 1]
    assert abs((words == VOCABULARY - 1).float().mean() - 0.75) < 0.02
    dictionary.count = [1000] * 4 + [0] * (VOCABULARY - 4)
    with pytest.raises(ValueError, match="the dictionary has no counts"):
        draw_sentences(dictionary, 1, 1, torch.Generator())


def test_what_cannot_be_measured_is_refused():
    model = build_with("linear", decoder_position="rope")
    with pytest.raises(ValueError, match="the encoder has linear attention, which forms no weights"):
        position_bias(model, "encoder", 9, 2)
    assert position_bias(model, "decoder", 9, 2)[:, :, EARLIER].isfinite().all()
    with pytest.raises(ValueError, match="--length and --sentences must be at least 1, not 9 and 0"):
        position_bias(model, "decoder", 9, 0)
    with pytest.raises(ValueError, match="a sentence of 65 tokens is longer than the encoder's table"):
        position_bias(build_with("learned"), "encoder", 65, 2)


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
    assert "the encoder has the encoding linear, which" in refused(capsys, "tupe", linear, "--out", out)
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
    assert "matplotlib is not installed: run scripts/install.sh, or pip install 'fairseq_rope[plot]'" in message
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
