"""``from_pretrained`` of the three classes: folders that it names, and models of another kind, which it refuses."""

import tarfile

import pytest

from fairseq_rope import RoFormerLanguageModel, RoFormerMaskedModel, RoFormerModel

from .model_folders import language_run_folder, run_folder

CLASSES = {
    "translation": (RoFormerModel, "roformer_tiny"),
    "masked": (RoFormerMaskedModel, "roformer_mlm_tiny"),
    "causal": (RoFormerLanguageModel, "roformer_lm_tiny"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Kind of model, to a model folder."""
    made = {}
    for kind, (_, arch) in CLASSES.items():
        make = run_folder if kind == "translation" else language_run_folder
        made[kind] = make(tmp_path_factory.mktemp("hub") / "run", arch)
    return made


def load(kind, folder, data="."):
    return CLASSES[kind][0].from_pretrained(str(folder), "checkpoint.pt", str(data))


@pytest.mark.parametrize("kind", CLASSES)
def test_what_is_missing_is_named(kind, folders, tmp_path):
    with pytest.raises(FileNotFoundError, match="No such folder: 'nowhere'"):
        CLASSES[kind][0].from_pretrained("nowhere")
    with pytest.raises(FileNotFoundError, match=f"No such folder: '{tmp_path}/no_data'"):
        load(kind, folders[kind], tmp_path / "no_data")
    with pytest.raises(OSError, match=f"{tmp_path}/checkpoint.pt"):
        load(kind, tmp_path)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_name_that_fairseq_would_split_or_replace_is_refused(kind, folders, tmp_path):
    for name in ("run:2", "${run}"):
        (tmp_path / name).symlink_to(folders[kind])
        with pytest.raises(ValueError, match="for a part of the name: rename the folder"):
            load(kind, tmp_path / name)
        with pytest.raises(ValueError, match="for a part of the name: rename the folder"):
            load(kind, folders[kind], tmp_path / name)
    load(kind, tmp_path / "run:2", folders[kind])  # only the name of the data is split
    with pytest.raises(ValueError, match="for a part of the name: rename the folder"):
        load(kind, tmp_path / "${run}", folders[kind])


def test_an_archive_and_a_short_name_are_fairseqs(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(RoFormerModel, "hub_models", lambda: {"short": {"path": str(folders["translation"])}})
    assert load("translation", "short", folders["translation"])
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as archive:
        archive.add(folders["causal"], arcname="run")
    assert load("causal", tmp_path / "run.tar.gz")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_model_of_another_kind_is_refused(kind, folders):
    for other, (model, _) in CLASSES.items():
        if other == kind:
            assert load(kind, folders[kind])
        else:
            with pytest.raises(ValueError, match=f"has no {kind} model: it is a {model.__name__}"):
                load(kind, folders[other])
