"""Parameters that were trained with another encoding: told where a model loads them, refused in an average."""

import argparse
import copy
from collections import OrderedDict

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.loading import Parameters
from fairseq_rope.options import changes, encodings_of

from .helpers import KINDS, build_with
from .model_folders import language_run_folder, run_folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "encoding,options,said",
    [
        ("rope", {}, None),
        (
            "rope",
            dict(rope_base=500.0, rope_layout="half"),
            "--rope-base 500.0 in place of 10000.0, --rope-layout half",
        ),
        ("alibi", {}, "-position alibi in place of rope"),
    ],
)
def test_a_model_says_what_its_parameters_were_trained_with(kind, encoding, options, said, caplog):
    """All of these have the same parameters."""
    trained = build_with(encoding, kind, **options)
    build_with("rope", kind).load_state_dict(Parameters.of(trained.state_dict(), trained.encodings))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == bool(said)
    assert not said or (messages[0].startswith("the parameters were trained with --") and said in messages[0])


@pytest.mark.parametrize("text", [None, "1e4", "10000"])
def test_a_field_of_yaml_may_be_null_or_text(text):
    cfg = OmegaConf.create({"encoder_position": "rope", "rope_base": text})
    assert not changes(encodings_of(cfg), encodings_of(argparse.Namespace(encoder_position="rope")))


def test_fairseq_hands_the_encodings_on_with_the_parameters(tmp_path):
    for folder in (run_folder(tmp_path / "t", "tupe_a_tiny"), language_run_folder(tmp_path / "m", "tupe_a_mlm_tiny")):
        path = str(folder / "checkpoint.pt")
        for overrides in (None, {"data": "elsewhere"}, {"encoder_position": "rope"}):
            parameters = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)["model"]
            assert parameters.encodings["encoder"][0] == "tupe_a"
        torch.save(parameters, tmp_path / "saved.pt")
        for each in (torch.load(tmp_path / "saved.pt", weights_only=True), copy.copy(parameters)):
            assert type(each) is OrderedDict and vars(each) == {"_metadata": parameters._metadata}


def test_checkpoints_of_several_encodings_have_no_average(tmp_path):
    paths = []
    for name, base in (("one", 1e4), ("two", 1e4), ("three", 500.0)):
        paths.append(run_folder(tmp_path / name, "roformer_tiny", "--rope-base", str(base)) / "checkpoint.pt")
    assert "embed" in str(average_checkpoints(paths[:2])["model"].keys())
    with pytest.raises(
        CheckpointError, match=r"three/checkpoint\.pt: --rope-base 500\.0 in place of 10000\.0: average"
    ):
        average_checkpoints(paths)
    other = run_folder(tmp_path / "four", "transformer_alibi_tiny") / "checkpoint.pt"
    state = torch.load(other, weights_only=True)  # Hydra's checkpoints have a dictionary
    state["cfg"]["model"] = {"_name": "transformer_alibi_tiny", **vars(state["cfg"]["model"])}
    torch.save(state, other)
    with pytest.raises(CheckpointError, match="--encoder-position alibi in place of rope, --decoder-position alibi"):
        average_checkpoints([paths[0], other])
