"""Parameters that were trained with another encoding are told where a model loads them, other dictionaries refused."""

import argparse
import copy
import itertools
import shutil
from collections import OrderedDict

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.checkpoints.convert import load_whole
from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.positions import convert_checkpoint
from fairseq_rope.loading import Parameters
from fairseq_rope.options import changes, encodings_of

from .helpers import KINDS, build_with, same
from .model_folders import language_run_folder, run_folder
from .training.test_updates import FUSED, trainer

FIELDS = ("encoder_position", "encoder_embed_dim", "decoder_position", "decoder_embed_dim", "share_all_embeddings")

OTHER_ROPE = dict(rope_base=500.0, rope_layout="half")


def test_a_model_says_what_its_parameters_were_trained_with(caplog):
    """All of these have the same parameters."""
    for kind, (encoding, options, said) in itertools.product(
        KINDS,
        (
            ("rope", {}, None),
            ("rope", OTHER_ROPE, "--rope-base 500.0 in place of 10000.0, --rope-layout half"),
            ("alibi", {}, "-position alibi in place of rope"),
            ("rope", dict(position_gap=3), "--position-gap 3 in place of 1"),
        ),
    ):
        trained = build_with(encoding, kind, **options)
        caplog.clear()
        build_with("rope", kind).load_state_dict(Parameters.of(trained.state_dict(), trained.encodings))
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == bool(said) and all(said in message for message in messages)


def test_a_field_of_yaml_may_be_null_or_text():
    for text in (None, "1e4", "10000"):
        cfg = OmegaConf.create({"encoder_position": "rope", "rope_base": text})
        assert not changes(encodings_of(cfg), encodings_of(argparse.Namespace(encoder_position="rope")))


def test_fairseq_hands_the_encodings_on_with_the_parameters(tmp_path):
    for folder in (run_folder(tmp_path / "t", "tupe_a_tiny"), language_run_folder(tmp_path / "m", "tupe_a_mlm_tiny")):
        path = str(folder / "checkpoint.pt")
        for overrides in (None, {"data": "elsewhere"}, {"encoder_position": "rope"}, {"position_gap": 3}):
            parameters = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)["model"]
            assert parameters.encodings["encoder"][::2] == ("tupe_a", 1)
        torch.save(parameters, tmp_path / "saved.pt")
        for each in (torch.load(tmp_path / "saved.pt", weights_only=True), copy.copy(parameters)):
            assert type(each) is OrderedDict and vars(each) == {"_metadata": parameters._metadata}


@pytest.mark.parametrize(
    "arch, kept_as", [("transformer_sinusoidal_tiny", dict), ("roformer_mlm_tiny", argparse.Namespace)]
)
def test_a_flag_that_the_architectures_of_earlier_versions_set_is_no_users_own(arch, kept_as, tmp_path):
    folder = (language_run_folder if "_mlm_" in arch else run_folder)(tmp_path / "run", arch)
    state, flag = torch.load(folder / "checkpoint.pt", weights_only=True), "no_token_positional_embeddings"
    fields = {name: vars(state["cfg"]["model"]).get(name) for name in FIELDS}
    state["cfg"]["model"] = kept_as(**fields, _name=arch, **{flag: True})
    torch.save(state, folder / "checkpoint.pt")
    data = {"data": str(folder)}
    (model,), _ = checkpoint_utils.load_model_ensemble([str(folder / "checkpoint.pt")], data)
    assert same(model.state_dict(), state["model"])
    with pytest.raises(ValueError, match="--no-token-positional-embeddings"):
        checkpoint_utils.load_model_ensemble([str(folder / "checkpoint.pt")], {**data, flag: True})


def loaded(folder, data):
    """The model of a model folder for data elsewhere."""
    return checkpoint_utils.load_model_ensemble([str(folder / "checkpoint.pt")], {"data": str(data)})[0][0]


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("arch", ["roformer_tiny", "roformer_mlm_tiny", "roformer_lm_tiny"])
def test_a_dictionary_of_other_words_is_refused(arch, is_old, tmp_path):
    folder = (language_run_folder if "lm_" in arch else run_folder)(tmp_path / "run", arch)
    if is_old:  # as an earlier version wrote the checkpoint
        state = torch.load(folder / "checkpoint.pt", weights_only=True)
        del state["cfg"]["model"].dictionaries
        torch.save(state, folder / "checkpoint.pt")
    assert same(loaded(folder, folder).state_dict(), loaded(folder, folder).state_dict())
    known = rf"{folder}/(dict\.\S*txt)" if is_old else rf"{folder}/checkpoint\.pt"
    others = tmp_path / "others"
    others.mkdir()
    for count in (20, 30):  # as many as in the model folder, and more
        for file in folder.glob("dict.*"):
            (others / file.name).write_text("".join(f"v{i} 1\n" for i in range(count)), encoding="utf-8")
        with pytest.raises(ValueError, match=rf"{others} \(.* types, SHA.* {known} \(2[45] types, SHA"):
            loaded(folder, others)


@pytest.mark.parametrize("place", ["beside the checkpoint", "in the data"])
def test_a_model_of_fairseq_has_the_words_of_its_training(place, tmp_path):
    """Its checkpoint does not tell them, so another dictionary of the same size would train on under other words."""
    folder, ours, data, others = (tmp_path / name for name in ("run", "ours", "data", "others"))
    run_folder(folder, "fairseq_transformer_tiny")
    for made in (ours, data, others):
        made.mkdir()
    for file in folder.glob("dict.*"):
        words = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (others / file.name).write_text("".join(reversed(words)), encoding="utf-8")
        if place == "in the data":
            shutil.move(file, data)
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["cfg"]["task"]["data"] = str(data)
    torch.save(state, folder / "checkpoint.pt")
    torch.save(convert_checkpoint(load_whole(folder), dict(position="rope")).state, ours / "checkpoint.pt")
    for file in [*folder.glob("dict.*"), *data.glob("dict.*")]:
        shutil.copy(file, ours)
    assert loaded(ours, ours)
    (folder / "dict.en.txt").write_text("a list of words\n")  # beside the model of another project
    assert list(load_whole(folder)["model"])
    with pytest.raises(ValueError, match=f"dictionary in {others} .* is not that of {ours}"):
        loaded(ours, others)


def test_a_training_that_starts_from_a_model_of_other_words_says_so(tmp_path):
    path, training = tmp_path / "checkpoint.pt", trainer(FUSED, "--no-save-optimizer-state")
    training.save_checkpoint(str(path), {"train_iterator": {"epoch": 1}})
    training.load_checkpoint(str(path), reset_optimizer=True)
    state = torch.load(path, weights_only=True)
    state["cfg"]["model"].dictionaries["decoder"] = "types of others"
    torch.save(state, path)
    with pytest.raises(ValueError, match=f"decoder's dictionary .* {path}"):
        training.load_checkpoint(str(path), reset_optimizer=True)


def test_checkpoints_of_several_encodings_have_no_average(tmp_path):
    paths = []
    for name, base in (("one", 1e4), ("two", 1e4), ("three", 500.0)):
        paths.append(run_folder(tmp_path / name, "roformer_tiny", "--rope-base", str(base)) / "checkpoint.pt")
    assert "embed" in str(average_checkpoints(paths[:2])["model"].keys())
    with pytest.raises(CheckpointError, match=r"three/checkpoint\.pt: --rope-base 500"):
        average_checkpoints(paths)
    state = torch.load(paths[1], weights_only=True)
    state["cfg"]["model"].dictionaries["encoder"] = "of other words"
    torch.save(state, tmp_path / "words.pt")
    with pytest.raises(CheckpointError, match=r"words\.pt: .* dictionaries"):
        average_checkpoints([paths[0], tmp_path / "words.pt"])
