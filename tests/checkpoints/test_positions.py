"""A trained model with other positions: every pair of encodings, in every kind of model, and fairseq's own models."""

import argparse
import itertools

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.models import ARCH_CONFIG_REGISTRY, FairseqEncoderDecoderModel, build_model

from fairseq_rope.__main__ import main
from fairseq_rope.architectures import FAMILIES, REFERENCE
from fairseq_rope.checkpoints.files import CheckpointError, load_checkpoint, save_checkpoint
from fairseq_rope.checkpoints.positions import convert_checkpoint, convert_for, with_options_of

from ..helpers import ENCODINGS, KINDS, decoder_input, same, task
from ..positions.whole_models import texts
from .test_fairseq_transformer import model_of

DIMENSIONS = dict(embed_dim=16, ffn_embed_dim=16, layers=1, attention_heads=2)
SMALL = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in DIMENSIONS.items()}
SMALL.update(max_source_positions=16, max_target_positions=16, max_positions=16, share_all_embeddings=True)
TOKENS = texts(2, 9)


def arch(kind, encoding):
    family = {position: name for name, position in FAMILIES.items()}.get(encoding, REFERENCE)
    return f"{family}{'' if kind == 'translation' else '_' + kind}_tiny"


def options(name, kind, **changes):
    """As fairseq-train would have parsed them."""
    given = {**SMALL, "share_decoder_input_output_embed": kind == "lm", "dropout": 0.0, **changes}
    args = argparse.Namespace(arch=name, _name=name, **given)
    ARCH_CONFIG_REGISTRY[name](args)
    return args


def checkpoint(cfg, seed=5):
    torch.manual_seed(seed)
    model = build_model(cfg, task())
    return {"args": None, "cfg": {"model": cfg}, "model": model.state_dict(), "last_optimizer_state": {"steps": 3}}


def without_positions(state):
    return {name: value for name, value in state["model"].items() if "position" not in name}


def run(model):
    """The output of a model of any kind, of fairseq's as well."""
    if isinstance(model, FairseqEncoderDecoderModel):
        return model(TOKENS, torch.tensor([9, 9]), decoder_input(TOKENS))[0]
    return model(TOKENS)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_encoding_can_follow_every_other(kind):
    """What has nothing to do with positions stays bit-identical; the rest is as in a new model; training goes on.

    Language models, whose conversion is the same function, take each encoding to itself and to the next one. Gradients
    are looked at for these pairs alone.
    """
    states = {name: checkpoint(options(arch(kind, name), kind)) for name in ENCODINGS}
    following = [*zip(ENCODINGS, ENCODINGS), *zip(ENCODINGS, [*ENCODINGS[1:], ENCODINGS[0]])]
    for state in states.values():
        state["cfg"]["model"].dictionaries = "those of the training"
    for old, new in itertools.product(ENCODINGS, ENCODINGS) if kind == "translation" else following:
        change = convert_checkpoint(states[old], dict(position=new), seed=3)
        before, after = without_positions(states[old]), without_positions(change.state)
        assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
        model = model_of(change.state)
        if (old, new) in following:
            run(model).logsumexp(-1).sum().backward()
            assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()), (old, new)
        if old == new:
            kept = change.state["model"]
            assert all(torch.equal(value, kept[name]) for name, value in states[old]["model"].items()), old
            assert not (change.dropped or change.new or change.resized)
        assert "last_optimizer_state" not in change.state
        assert change.state["cfg"]["model"].dictionaries == "those of the training"


def test_new_parameters_come_from_the_seed_and_are_listed():
    state = checkpoint(options(arch("translation", "t5"), "translation"))
    one, same, other = (convert_checkpoint(state, dict(position="tupe_r"), seed) for seed in (1, 1, 2))
    table = "encoder.position.table"
    assert torch.equal(one.state["model"][table], same.state["model"][table])
    assert not torch.equal(one.state["model"][table], other.state["model"][table])
    assert table in one.new and "decoder.position.q_proj.weight" in one.new


def test_a_longer_table_keeps_the_rows_of_the_old_one():
    state = checkpoint(options(arch("translation", "learned"), "translation"))
    change = convert_checkpoint(state, dict(max_source_positions=24))
    old, new = (s["model"]["encoder.position.weight"] for s in (state, change.state))
    assert len(new) == len(old) + 8 and torch.equal(new[: len(old)], old)
    assert "encoder.position.weight (16 rows to 24)" in change.resized
    assert torch.equal(run(model_of(state)), run(model_of(change.state)))


@pytest.mark.parametrize(("old", "new", "further"), [("tupe_a", "tupe_r", 0), ("learned_untied", "tupe_a", 2)])
def test_rows_of_positions_stay_those_of_their_positions(old, new, further):
    """TUPE's table has two further rows before them, for the special symbol."""
    state = checkpoint(options(arch("translation", old), "translation"))
    table = convert_checkpoint(state, dict(position=new)).state["model"]["encoder.position.table"]
    assert torch.equal(table[further:], state["model"]["encoder.position.table"])


def test_the_task_takes_texts_as_long_as_the_model_does_now():
    limits = dict(max_source_positions=16, max_target_positions=16)
    for task_options in (limits, argparse.Namespace(**limits)):
        state = checkpoint(options(arch("translation", "rope"), "translation"))
        state["cfg"]["task"] = task_options
        changed = convert_checkpoint(state, dict(max_source_positions=24, max_positions=9)).state["cfg"]["task"]
        assert changed == type(task_options)(**{**limits, "max_source_positions": 24})
        assert state["cfg"]["task"] == type(task_options)(**limits)  # the argument stays


@pytest.mark.parametrize("kind", KINDS)
def test_fairseqs_own_models_get_new_positions(kind):
    sides = {"translation": ("encoder", "decoder"), "mlm": ("encoder",), "lm": ("decoder",)}[kind]
    for learned in (False, True):
        flags = {f"{side}_learned_pos": learned for side in sides}
        state = checkpoint(options(arch(kind, "of fairseq"), kind, **flags))
        for name, value in without_positions(convert_checkpoint(state, dict(position="rope")).state).items():
            assert torch.equal(value, state["model"][name]), name
        same = convert_checkpoint(state, dict(position="learned" if learned else "sinusoidal")).state
        assert (run(model_of(same)) - run(model_of(state))).abs().max() < 1e-5


def test_parameters_by_the_names_of_2018_get_new_positions():
    state = checkpoint(options(arch("translation", "of fairseq"), "translation"))
    converted, model = convert_checkpoint(state, dict(position="rope")).state, state["model"]
    for name in [name for name in model if ".q_proj." in name]:
        parts = [model.pop(name.replace("q_proj", f"{letter}_proj")) for letter in "qkv"]
        model[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    assert same(convert_checkpoint(state, dict(position="rope")).state["model"], converted["model"])


def test_what_does_not_fit_is_refused():
    state = checkpoint(options(arch("translation", "sinusoidal"), "translation"))
    with pytest.raises(CheckpointError, match="no encoder"):
        convert_checkpoint(checkpoint(options(arch("lm", "rope"), "lm")), dict(encoder_position="t5"))
    with pytest.raises(ValueError, match="--rope-dim"):
        convert_checkpoint(state, dict(position="rope", rope_dim=7))
    half = checkpoint(options("roformer_tiny", "translation", rope_layout="half"))
    with pytest.raises(CheckpointError, match="--linear-layout half"):
        convert_checkpoint(half, dict(position="linear"))


def test_the_command_takes_a_stretched_model_back(tmp_path):
    """Also with options that are 0."""
    yarn = dict(rope_scaling="yarn", rope_scaling_factor=2.0, rope_original_length=16, rope_dim=4)
    save_checkpoint(checkpoint(options("roformer_tiny", "translation", **yarn)), tmp_path / "yarn.pt")
    command = "--rope-scaling none --rope-scaling-factor 1 --rope-original-length 0 --rope-dim 0".split()
    assert main(["convert", str(tmp_path / "yarn.pt"), *command, "--out", str(tmp_path / "plain.pt")]) == 0
    cfg = load_checkpoint(tmp_path / "plain.pt")["cfg"]["model"]
    assert (cfg.rope_scaling, cfg.rope_original_length, cfg.rope_dim) == ("none", 0, 0)
    drawn = ["--position", "tupe_a", "--seed", "2", "--out", str(tmp_path / "drawn.pt")]
    assert main(["convert", str(tmp_path / "plain.pt"), *drawn]) == 0
    expected = convert_checkpoint(load_checkpoint(tmp_path / "plain.pt"), dict(position="tupe_a"), seed=2).state
    assert same(load_checkpoint(tmp_path / "drawn.pt")["model"], expected["model"])


def test_a_training_may_begin_with_a_checkpoint_that_differs_in_positions_alone():
    state = checkpoint(options(arch("translation", "sinusoidal"), "translation"))
    args = options("roformer_tiny", "translation")
    assert convert_for(state, args, 1).state["cfg"]["model"].encoder_position == "rope"
    args.encoder_ffn_embed_dim = 32
    with pytest.raises(CheckpointError, match="--encoder-ffn-embed-dim is 16 in the checkpoint, 32 here"):
        convert_for(state, args, 1)
    with pytest.raises(CheckpointError, match="another kind"):
        convert_for(state, options("roformer_lm_tiny", "lm"), 1)


def test_a_training_has_its_own_options_and_says_which_differ_from_the_checkpoints():
    """Not those of the checkpoint where the command line leaves one out: the training would have the default."""
    state = checkpoint(options("roformer_tiny", "translation", rope_layout="half", rope_base=5e5))
    args = options("roformer_tiny", "translation")
    with pytest.raises(CheckpointError, match="--rope-layout half"):
        convert_for(state, args, 1)
    args.rope_layout = "half"
    change = convert_for(state, args, 1)
    assert change.state["cfg"]["model"].rope_base == 10000
    assert "--rope-base 10000.0 in place of 500000.0" in change.report(1)


def parsed(flags, kind):
    words = [word for name, values in flags.items() for word in (name, *values)]
    task = {"translation": [], "mlm": ["--task", "masked_lm"], "lm": ["--task", "language_modeling"]}[kind]
    length = ["--tokens-per-sample", "16"] if task else []
    return fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), [".", *task, *length, *words])


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_may_take_all_options_of_the_model_from_the_checkpoint(kind):
    """As flags of fairseq-train, in place of those of its recipe; so all parameters stay."""
    own = dict(encoder_normalize_before=True, decoder_normalize_before=True, no_decoder_final_norm=kind != "mlm")
    own.update(activation_fn="tanh", share_all_embeddings=False, output_bias=kind == "translation", dropout=0.4)
    of_its_kind = {
        "translation": dict(no_scale_embedding=True, swish=True, start_with_bos=True),
        "mlm": dict(layer_norm_eps=1e-12, token_type_embedding=True),
        "lm": dict(no_scale_embedding=True),
    }
    own.update(of_its_kind[kind])
    absent = {"translation": (), "mlm": ("decoder_",), "lm": ("encoder_",)}[kind]
    for encoding, of_it in (("learned", {}), ("shaw", dict(shaw_clip=3))):
        cfg = options(arch(kind, encoding), kind, **own, **of_it)
        for name in [name for name in vars(cfg) if name.startswith(absent)]:
            delattr(cfg, name)  # which fairseq-train does not parse
        state = checkpoint(cfg)
        recipe = {
            "--share-all-embeddings": [],
            "--decoder-layers" if kind == "lm" else "--encoder-layers": ["9"],
            "--dropout": ["0.3"],
        }
        args = parsed(with_options_of(state, recipe, {}), kind)
        assert args.dropout == 0.3
        assert all(vars(args)[name] == value for name, value in own.items() if name in vars(args) and name != "dropout")
        change = convert_for(state, args, 2)
        assert not any([change.positions, change.dropped, change.new, change.resized])
        after = change.state["model"]
        assert all(torch.equal(value, after[name]) for name, value in state["model"].items())
        model_of(change.state)


def test_an_encoding_that_the_user_names_takes_the_place_of_the_checkpoints_with_its_options():
    state = checkpoint(options(arch("translation", "sinusoidal"), "translation", sinusoidal_formula="paper"))
    given = {"--encoder-position": ["rope"], "--decoder-position": ["t5"]}
    args = parsed({**with_options_of(state, {}, given), **given}, "translation")
    assert (args.encoder_position, args.decoder_position) == ("rope", "t5")
    del given["--decoder-position"]
    args = parsed({**with_options_of(state, {}, given), **given}, "translation")
    assert (args.encoder_position, args.decoder_position, args.sinusoidal_formula) == ("rope", "sinusoidal", "paper")


def test_a_tuned_model_keeps_its_head():
    state = checkpoint(options(arch("mlm", "rope"), "mlm"))
    model = model_of(state)
    model.register_classification_head("tuned", num_classes=2)
    state["model"] = model.state_dict()
    assert same(convert_checkpoint(state, dict(rope_base=500.0)).state["model"], state["model"])


def test_parameters_that_alone_were_trained_may_go():
    frozen = checkpoint(options(arch("translation", "t5"), "translation", only_train="position"))
    assert not convert_checkpoint(frozen, dict(position="rope")).state["cfg"]["model"].only_train


@pytest.mark.parametrize("drawn", [dict(position_shift=16), dict(position_sample=16, position_gap=2)])
def test_positions_that_a_training_drew_are_no_part_of_the_model_but_their_distance_is(drawn):
    state = checkpoint(options(arch("translation", "sinusoidal"), "translation", **drawn))
    args, gap = options(arch("translation", "rope"), "translation"), drawn.get("position_gap")
    for change in (convert_checkpoint(state, dict(position="rope")), convert_for(state, args, 1)):
        cfg = change.state["cfg"]["model"]
        assert not cfg.position_shift and not cfg.position_sample
    assert cfg.position_gap == 1 and ("--position-gap 1 in place of 2" in change.report(1)) == (gap == 2)
    assert with_options_of(state, {}, {}).get("--position-gap") == (["2"] if gap else None)
    spaced = convert_checkpoint(state, dict(position="rope", position_gap=4)).state["cfg"]["model"]
    assert spaced.position_gap == 4
    convert_checkpoint(state, dict(position="none"))  # which has none to space
