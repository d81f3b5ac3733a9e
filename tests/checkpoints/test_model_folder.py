"""What is refused when a model folder is opened: every file that is missing, damaged or not the model's."""

import json

import pytest
import torch

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import REMEDY, load_model, read_direction
from fairseq_rope.translation import RoFormerModel
from pipeline.command import Failure
from pipeline.files import sha256
from pipeline.prepared import Prepared, read_prepared
from pipeline.translation import engines
from pipeline.translation.translator import Translator

from ..model_folders import run_folder

WORDS = "w 1\n" + "".join(f"{start} {i}</w>\n" for start in ("w", "w1") for i in range(10))
CODES = f"#version: 0.2\n{WORDS}"
CUT = CODES[: CODES.index("w1 8")].encode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model folder with all its files; its model, which was not trained, stops at 16 words."""
    folder = run_folder(tmp_path_factory.mktemp("folder") / "run", "roformer_tiny", "--max-target-positions", "16")
    (folder / "bpecodes").write_text(CODES)
    (folder / "vocabulary.en").write_text("w1 5\n")
    hashes = {name: sha256(folder / name) for name in ("bpecodes", "dict.en.txt", "dict.de.txt", "vocabulary.en")}
    prepared = {"hyphens": "kept", "vocabulary_threshold": "2", "sha256": {**hashes, "train.en": "0"}}
    (folder / "prepare.json").write_text(json.dumps(prepared))
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """The same with files that a test may change; the large one is a link."""
    for file in whole.iterdir():
        if file.suffix == ".pt":
            (tmp_path / file.name).symlink_to(file)
        else:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def refused(folder, message, opened=Translator):
    """It is refused in one line, which begins with the folder's name and ends with the remedy."""
    with pytest.raises((CheckpointError, Failure), match=message) as error:
        opened(folder)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(folder))
    assert str(error.value).endswith(REMEDY)


def test_a_source_longer_than_a_batch_is_a_batch_of_its_own(folder, monkeypatch):
    translator = Translator(folder)
    sources = translator.split(["w1 w2 " * length for length in (1, 4, 2)])
    whole = translator.search(sources)
    monkeypatch.setattr(engines, "TOKENS", 5)
    assert translator.search(sources) == whole


def test_a_whole_folder_says_how_text_is_split(folder):
    prepared = read_prepared(folder, REMEDY)
    assert prepared.hyphens == "kept" and prepared.vocabulary_threshold == 2
    assert Translator(folder).processing.split(["w1-w2"]) == ["w@@ 1@@ -@@ w@@ 2"]
    (folder / "prepare.json").unlink()
    assert read_prepared(folder, REMEDY) == Prepared()
    Translator(folder)


@pytest.mark.parametrize(
    "name, content",
    [
        ("bpecodes", None),  # missing
        ("dict.de.txt", None),
        ("prepare.json", b'{"hyphens":'),
        ("bpecodes", CODES.encode()[:-3]),  # told by the hash
        ("vocabulary.en", b"w1"),
        ("dict.de.txt", b"w0 1\nw1 2\nw"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_named(folder, name, content):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    for opened in (Translator, load_model) if name.startswith("dict") else (Translator,):
        refused(folder, name, opened)


def test_text_of_the_user_s_in_the_folder_is_no_damage_whatever_its_name(folder):
    (folder / "train.en").write_text("w1 w2\n")  # as a translation of a set into the folder has it
    Translator(folder)


def test_damaged_codes_are_told_where_no_hash_is_stored(folder):
    """By the dictionary, if they were cut off."""
    (folder / "prepare.json").unlink()
    for codes in (CUT, b"w 1</w>\nw 2</w> x y\n"):
        (folder / "bpecodes").write_bytes(codes)
        refused(folder, "bpecodes")


def test_a_prepare_json_of_other_languages_is_refused(folder):
    prepared = json.loads((folder / "prepare.json").read_text())
    for entry in ({"source": "fr"}, {"source": "de", "target": "en"}):
        (folder / "prepare.json").write_text(json.dumps({**prepared, **entry}))
        for opened in (Translator, load_model):
            refused(folder, r"prepare\.json.*(source|target)", opened)


def test_prepare_json_names_the_languages_that_a_checkpoint_does_not(folder):
    """The training found them in the names of its data, as fairseq stores it."""
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["cfg"]["task"].update(source_lang=None, target_lang=None)
    (folder / "checkpoint.pt").unlink()
    torch.save(state, folder / "checkpoint.pt")
    with pytest.raises(CheckpointError, match=r"prepare\.json"):
        load_model(folder)
    (folder / "prepare.json").write_text('{"source": "en", "target": "de"}')
    assert read_direction(folder)[:2] == ("en", "de")
    assert load_model(folder).encoder.dictionary[4] == "w0"
    assert Translator(folder).processing.target == "de"


def test_the_hub_aligns_words_where_it_is_asked(folder):
    hub = RoFormerModel.from_pretrained(str(folder), "checkpoint.pt", ".")
    source = hub.binarize("w1 w2")
    (aligned,), (plain,) = (hub.generate([source], beam=1, **asked)[0] for asked in ({"print_alignment": "hard"}, {}))
    assert torch.equal(aligned["tokens"], plain["tokens"]) and not plain.get("alignment", torch.empty(0)).numel()
    assert {target for _, target in aligned["alignment"]} <= set(range(len(plain["tokens"])))
    assert {source for source, _ in aligned["alignment"]} <= {0, 1}
    assert aligned["alignment"] and not hub.models[0].decoder.need_attn
