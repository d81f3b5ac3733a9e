"""What is refused when a model folder is opened: every file that is missing, damaged or not the model's."""

import argparse
import json
import threading
import warnings

import pytest
import torch

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import REMEDY, load_model, read_languages
from fairseq_rope.translation import RoFormerModel
from pipeline.command import Failure
from pipeline.files import sha256
from pipeline.prepared import Prepared, read_prepared
from pipeline.translation.translator import Translator

from ..model_folders import run_folder

WORDS = "w 1\n" + "".join(f"{start} {i}</w>\n" for start in ("w", "w1") for i in range(10))
CODES = f"#version: 0.2\n{WORDS}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model folder with all its files."""
    folder = run_folder(tmp_path_factory.mktemp("folder") / "run", "roformer_tiny")
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
    with pytest.raises((CheckpointError, Failure), match=message) as error:
        opened(folder)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(folder))
    assert str(error.value).endswith(": scripts/average.sh makes a complete model folder")


@pytest.mark.parametrize("opened", [Translator, load_model, read_languages])
@pytest.mark.parametrize("name", ["run:2", "${run}"])
def test_a_name_that_fairseq_would_split_or_replace_is_refused(folder, tmp_path_factory, opened, name):
    """``run:2`` would read the dictionaries of ``run``."""
    renamed = tmp_path_factory.mktemp("named") / name
    folder.rename(renamed)
    with pytest.raises(CheckpointError, match="for a part of the name: rename the folder"):
        opened(renamed)


def test_a_source_longer_than_a_batch_is_a_batch_of_its_own(folder):
    sentences = ["w1 w2 " * length for length in (1, 4, 2)]
    short, whole = Translator(folder, max_tokens=5), Translator(folder)
    assert short.translate(sentences) == whole.translate(sentences)


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_translations_at_the_limit_of_the_search_are_counted(tmp_path, engine):
    """A model that never chooses ``</s>`` fills the positions of each translation."""
    limited = run_folder(tmp_path / "limited", "roformer_tiny", "--max-target-positions", "6")
    state = torch.load(limited / "checkpoint.pt", weights_only=True)
    weights = state["model"]
    last = max(name for name in weights if name.endswith("final_layer_norm.bias") and name.startswith("decoder"))
    weights[last].fill_(1)  # the features of each position sum to the width of the model,
    weights["decoder.embed_tokens.weight"][2] = -10  # so the score of </s> is -10 times that width
    torch.save(state, limited / "checkpoint.pt")
    (limited / "prepare.json").write_text(json.dumps({"sha256": {}, "subwords": "none"}))
    translator = Translator(limited, engine=engine)
    for sentences in (["w1 w2", "", "w3"], ["w4"], [""]):
        translator.translate(sentences)
        assert translator.cut == sum(map(bool, sentences))


def test_a_whole_folder_says_how_text_is_split(folder):
    prepared = read_prepared(folder, REMEDY)
    assert prepared.hyphens_kept and prepared.vocabulary_threshold == 2
    assert Translator(folder).processing.split(["w1-w2"]) == ["w@@ 1@@ -@@ w@@ 2"]
    (folder / "prepare.json").unlink()
    assert read_prepared(folder, REMEDY) == Prepared()
    Translator(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"hyphens":', "is not JSON, or damaged"),
        (b"\xff", "is not JSON, or damaged"),
        (b"[1]", "must be an object"),
        (b'{"hyphens": 3}', "has 3 as 'hyphens', which must be 'split' or 'kept'"),
        (b'{"hyphens": "maybe"}', "has 'maybe' as 'hyphens'"),
        (b'{"vocabulary_threshold": []}', r"has \[\] as 'vocabulary_threshold', which must be digits"),
        (b'{"vocabulary_threshold": "-1"}', "has '-1' as 'vocabulary_threshold'"),
        (b'{"sha256": "0"}', "has '0' as 'sha256', which must be an object"),
        (b'{"source": "../en", "target": "de"}', r"has '\.\./en' as 'source', which must be a language code \(letters"),
        (b'{"source": "en", "target": "d\\ne"}', r"has 'd\\ne' as 'target', which must be a language code"),
    ],
)
def test_a_damaged_prepare_json_is_named_with_what_is_wrong(folder, content, message):
    (folder / "prepare.json").write_bytes(content)
    refused(folder, rf"prepare\.json {message}", lambda folder: read_prepared(folder, REMEDY))


@pytest.mark.parametrize("name", ["bpecodes", "vocabulary.en"])
def test_a_truncated_file_is_told_by_its_hash(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:-3])
    refused(folder, rf"{name} is damaged: its SHA-256 is not that in prepare\.json")


def test_codes_that_were_cut_off_are_told_by_the_dictionary_where_no_hash_is_stored(folder):
    (folder / "prepare.json").unlink()
    (folder / "bpecodes").write_text("".join(CODES.splitlines(keepends=True)[:-2]))
    refused(folder, "bpecodes is cut off, or of other data: of 20 types .*, it makes 18, and not 'w19'")


@pytest.mark.parametrize("opened", [Translator, load_model])
@pytest.mark.parametrize("entry", [{"source": "fr"}, {"target": "en"}, {"source": "de", "target": "en"}, {"source": 3}])
def test_a_prepare_json_of_other_languages_is_refused(folder, opened, entry):
    prepared = json.loads((folder / "prepare.json").read_text())
    (folder / "prepare.json").write_text(json.dumps({**prepared, **entry}))
    refused(folder, r"prepare\.json has .* as '?(source|target)", opened)


@pytest.fixture
def nameless(folder):
    """The same of a training that found the languages in the names of its data, as fairseq stores it."""
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["cfg"]["task"].update(source_lang=None, target_lang=None)
    (folder / "checkpoint.pt").unlink()
    torch.save(state, folder / "checkpoint.pt")
    return folder


def test_prepare_json_names_the_languages_that_a_checkpoint_does_not(nameless):
    path = nameless / "prepare.json"
    wanted = r'names no languages: write a prepare\.json there, such as {"source": "en", "target": "de"}'
    for content in (path.read_text(), "[]", '{"source": "en", "target": 3}'):
        path.write_text(content)
        with pytest.raises(CheckpointError, match=wanted):
            load_model(nameless)
    path.write_text('{"source": "en", "target": "de"}')
    assert read_languages(nameless) == ("en", "de")
    assert load_model(nameless).encoder.dictionary[4] == "w0"
    assert Translator(nameless).processing.target == "de"


def test_a_checkpoint_with_args_names_its_languages(nameless):
    state = torch.load(nameless / "checkpoint.pt", weights_only=True)
    args = argparse.Namespace(**{**state["cfg"]["model"].__dict__, "source_lang": "en", "target_lang": "de"})
    torch.save({**state, "args": args, "cfg": None}, nameless / "checkpoint.pt")
    (nameless / "prepare.json").unlink()
    assert read_languages(nameless) == ("en", "de")


def test_a_prepare_json_that_was_edited_does_not_blame_the_user_for_files_not_given(folder):
    prepared = json.loads((folder / "prepare.json").read_text())
    (folder / "prepare.json").write_text(json.dumps({**prepared, "subwords": "sentencepiece"}))
    refused(folder, "prepare.json has 'sentencepiece' as 'subwords', but bpecodes is of 'bpe'")
    del prepared["sha256"]["bpecodes"]
    (folder / "prepare.json").write_text(json.dumps({**prepared, "subwords": "sentencepiece", "cleaned": {}}))
    refused(folder, r"sentencepiece\.bpe\.model: missing")


def test_the_hub_says_nothing_about_memory_and_leaves_the_users_warnings_as_they_are(folder):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        hub = RoFormerModel.from_pretrained(str(folder), "checkpoint.pt", ".")
        assert hub.translate(["w1 w2"], beam=1)
        assert warnings.filters == before and not [each for each in said if "pin_memory" in str(each.message)]


def test_the_hub_aligns_words_where_it_is_asked(folder):
    hub = RoFormerModel.from_pretrained(str(folder), "checkpoint.pt", ".")
    source = hub.binarize("w1 w2")
    (aligned,), (plain,) = (hub.generate([source], beam=1, **asked)[0] for asked in ({"print_alignment": "hard"}, {}))
    assert torch.equal(aligned["tokens"], plain["tokens"]) and not plain.get("alignment", torch.empty(0)).numel()
    assert {target for _, target in aligned["alignment"]} <= set(range(len(plain["tokens"])))
    assert {source for source, _ in aligned["alignment"]} <= {0, 1}
    assert aligned["alignment"] and not hub.models[0].decoder.need_attn


def test_a_plain_search_that_ends_meanwhile_does_not_disturb_an_alignment(folder):
    hub = RoFormerModel.from_pretrained(str(folder), "checkpoint.pt", ".")
    source = hub.binarize("w1 w2")
    alone = hub.generate([source], beam=1, print_alignment="hard")[0][0]["alignment"]
    begun, aligning, ended = (threading.Event() for _ in range(3))

    def meet(*_):
        own, other = (begun, aligning) if threading.current_thread() is plain else (aligning, ended)
        own.set()
        assert other.wait(60)

    def search():
        hub.generate([source], beam=1)
        ended.set()

    hub.models[0].encoder.embed_tokens.register_forward_pre_hook(meet)
    plain = threading.Thread(target=search)
    plain.start()
    assert begun.wait(60)
    assert hub.generate([source], beam=1, print_alignment="hard")[0][0]["alignment"] == alone
    assert not hub.models[0].decoder.need_attn


@pytest.mark.parametrize("name", ["bpecodes", "vocabulary.en", "dict.de.txt"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    refused(folder, f"{name}: missing")


@pytest.mark.parametrize("codes", [b"w 1</w>\nw 2</w> x y\n", "w ä\n".encode("latin-1")])
def test_damaged_codes_are_told_where_no_hash_is_stored(folder, capsys, codes):
    (folder / "prepare.json").unlink()
    (folder / "bpecodes").write_bytes(codes)
    refused(folder, "bpecodes is damaged: not two subwords a line, in UTF-8")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("opened", [Translator, load_model])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + text, r"cannot be used \(Duplicate word found when loading Dictionary: 'w0'\)"),
        (lambda text: text + b"word\n", r"cannot be used \(Incorrect dictionary format, .* \"word ?\"\)"),
        (lambda text: text + b"\xff 3\n", r"cannot be used \(Incorrect encoding detected in .*\)"),
        (lambda text: text[: text.index(b"w10")], "has 14 types with fairseq's own, the model 24"),
        (lambda text: b"", "has 4 types with fairseq's own, the model 24"),
    ],
)
def test_a_dictionary_that_is_not_the_models_is_named(folder, change, message, opened):
    path = folder / "dict.de.txt"
    path.write_bytes(change(path.read_bytes()))
    refused(folder, rf"dict\.de\.txt {message}", opened)
