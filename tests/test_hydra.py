"""Configurations in YAML: models of them, every option, what is refused, and the page of the manual as it stands."""

import dataclasses
import re

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.models import build_model
from omegaconf import OmegaConf

from fairseq_rope.architectures import ARCHITECTURES
from fairseq_rope.checkpoints.convert import convert_file
from fairseq_rope.positions import POSITIONS

from .commands import ROOT, USER_DIR, fairseq, hypotheses, parameters, run
from .helpers import build, same, task

SMALL = dict(encoder_layers=1, decoder_layers=1, encoder_embed_dim=32, decoder_embed_dim=32)
OPTIONS = {
    f"{encoding.prefix}_{field.name}": (name, field)
    for name, encoding in POSITIONS.items()
    for field in dataclasses.fields(encoding.Options)
}
NEEDED = {
    "scaling": {"scaling_factor": 2.0},
    "scaling_factor": {"scaling": "linear"},
    "original_length": {"scaling": "dynamic"},
    "features": {"feature_map": "favor"},
}
"""Options that are refused alone."""


def configured(name, **fields):
    torch.manual_seed(0)
    return build_model(OmegaConf.create({"_name": name, **fields}), task())


def test_a_configuration_builds_what_parsed_arguments_build():
    limits, dimensions = dict(max_source_positions=64, max_target_positions=64), dict(embed_dim=32, ffn_embed_dim=48)
    for arch in (arch for arch in ARCHITECTURES if arch.endswith("_tiny")):
        kind = ARCHITECTURES[arch].kind
        parsed = build(arch, share_all_embeddings=False, share_decoder_input_output_embed=False)
        sizes = {f"{side}_{name}": size for side in kind.sides for name, size in dimensions.items()}
        model = configured(arch, **sizes, **({} if kind.infix else limits))  # that of a language model is its task's
        assert same(model.state_dict(), parsed.state_dict()), arch


def test_the_architecture_fills_the_configuration_and_null_is_not_given():
    cfg = OmegaConf.create({"_name": "roformer_tiny", "encoder_layers": None, "rope_base": None})
    model = build_model(cfg, task())
    assert cfg.encoder_layers == 2 and cfg.encoder_position == "rope"
    assert model.encoder.position.options.base == 10000


def test_the_limits_of_the_task_are_those_of_the_model():
    """A flag sets both; a null or missing field is that of the task."""
    words, cfg = task(), OmegaConf.create({"_name": "tupe_a_tiny", "max_target_positions": 9})
    words.cfg = OmegaConf.create({"max_source_positions": 2048, "max_target_positions": 512})
    model = build_model(cfg, words)
    assert (model.encoder.max_positions(), model.decoder.max_positions()) == (2048, 9)
    assert (cfg.max_source_positions, cfg.max_target_positions) == (2048, 9)  # for checkpoints


def another_value(field):
    if isinstance(field.default, bool):
        return True
    choices = field.metadata.get("choices")
    return next(choice for choice in choices if choice != field.default) if choices else 2 * field.default or 4


def test_every_option_of_an_encoding_arrives():
    for option, (name, field) in OPTIONS.items():
        value = another_value(field)
        side = field.metadata.get("side", "encoder")
        needed = {f"{POSITIONS[name].prefix}_{other}": value for other, value in NEEDED.get(field.name, {}).items()}
        both = dict(encoder_position=name, decoder_position=name)
        model = configured("roformer_tiny", **both, **{option: value}, **needed)
        assert getattr(getattr(model, side).position.options, field.name) == value != field.default, option


def test_a_wrong_field_is_refused_by_name():
    for fields in (
        dict(rope_bse=1),
        dict(encoder=dict(layers=1)),
        dict(rope_base="abc"),
        dict(share_all_embeddings="yes"),
        dict(no_token_positional_embeddings=True),
        dict(alibi_split_directions=True),
    ):
        (name,) = fields
        with pytest.raises(ValueError, match=f"{name}|--{name.replace('_', '-')}"):
            configured("roformer_tiny", **fields)


@pytest.mark.slow
def test_the_manuals_configuration_trains_resumes_and_translates(data, tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/compatibility.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "roformer.yaml").write_text(text, encoding="utf-8")
    train = ["fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "roformer"]
    train += [f"common.user_dir={USER_DIR}", f"task.data={data / 'bin'}", "dataset.max_tokens=600"]
    train += [f"+model.{name}={value}" for name, value in SMALL.items()]
    checkpoint = tmp_path / "checkpoints/checkpoint_last.pt"
    run(*train, "optimization.max_update=2", cwd=tmp_path)
    first = parameters(checkpoint)
    log = run(*train, "optimization.max_update=4", cwd=tmp_path)
    assert "Loaded checkpoint checkpoints/checkpoint_last.pt (epoch 1 @ 2 updates)" in log.stdout
    assert any(not torch.equal(value, first[name]) for name, value in parameters(checkpoint).items())
    saved = torch.load(checkpoint, weights_only=True)["cfg"]["model"]
    assert (saved["rope_base"], saved["decoder_position"], saved["tupe_no_reset"]) == (500, "tupe_a", True)

    # of a configuration, fairseq changes only what it names
    overrides = {option: another_value(field) for option, (_, field) in OPTIONS.items()} | {"position_gap": 2}
    changed = load_checkpoint_to_cpu(str(checkpoint), {**overrides, "data": "elsewhere"})["cfg"]["model"]
    assert {option: changed[option] for option in overrides} == overrides and "data" not in changed

    convert_file(checkpoint, "half", tmp_path / "half.pt")
    generate = ["--task", "fast_translation", "--batch-size", 9, "--max-len-b", 10, "--path"]
    outputs = [
        hypotheses(fairseq("generate", data, *generate, path).stdout) for path in (checkpoint, tmp_path / "half.pt")
    ]
    assert len(outputs[0]) > 9 and outputs[0] == outputs[1]
