"""A model of several languages: directions, their tags, and translations by both engines."""

import shutil

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.model_folder import CHECKPOINT, load_model, read_direction
from fairseq_rope.checkpoints.multilingual import Direction
from pipeline.translation.engines import Search
from pipeline.translation.translator import Translator

from ..model_folders import multilingual_run_folder, run_folder

SENTENCES = ["w1 w2 w3", "w4", "w9 w8 w7 w6 w5 w4 w3"]
TAGS = {
    "src": (["--encoder-langtok", "src", "--decoder-langtok"], "__en__", "__de__"),
    "tgt": (["--encoder-langtok", "tgt"], "__de__", ""),
    "decoder": (["--decoder-langtok", "--lang-tok-style", "mbart"], "", "[de]"),
    "langtoks": (["--langtoks", '{"main": ("tgt", "tgt")}'], "__de__", "__de__"),
}


@pytest.fixture(scope="module", params=["roformer_tiny", "transformer_sinusoidal_tiny"])
def folder(request, tmp_path_factory):
    flags = TAGS["src"][0]
    return multilingual_run_folder(tmp_path_factory.mktemp("several") / "run", request.param, *flags)


@pytest.mark.parametrize("name", TAGS)
def test_tags_are_those_of_the_training(name, tmp_path):
    flags, source_tag, target_tag = TAGS[name]
    folder = multilingual_run_folder(tmp_path / "run", "roformer_tiny", *flags)
    direction = read_direction(folder, CHECKPOINT, "en", "de")
    assert direction == Direction("en", "de", source_tag, target_tag)
    words = load_model(folder).encoder.dictionary
    assert all(words.index(tag) != words.unk() for tag in (source_tag, target_tag) if tag)


def test_a_language_may_be_left_out_if_one_direction_of_the_training_is_left(folder):
    assert read_direction(folder, target="fr")[:2] == ("en", "fr")
    assert read_direction(folder, source="de")[:2] == ("de", "en")
    assert read_direction(folder, source="fr", target="de")[:2] == ("fr", "de")  # the training had no text of it
    for given in ({}, {"source": "en"}):
        with pytest.raises(CheckpointError, match=r"--source-lang and --target-lang.*en, de, fr"):
            read_direction(folder, **given)
    with pytest.raises(CheckpointError, match="'cs' is none of the model's languages: en, de, fr"):
        read_direction(folder, target="cs")


def test_a_model_of_two_languages_takes_no_others(tmp_path):
    run_folder(tmp_path / "run", "roformer_tiny")
    assert read_direction(tmp_path / "run", target="de") == Direction("en", "de")
    with pytest.raises(CheckpointError, match="translates from en to de alone"):
        read_direction(tmp_path / "run", target="fr")


def test_tags_in_place_of_the_end_are_refused(tmp_path):
    flags = ["--decoder-langtok", "--lang-tok-replacing-bos-eos"]
    folder = multilingual_run_folder(tmp_path / "run", "roformer_tiny", *flags)
    with pytest.raises(CheckpointError, match="--lang-tok-replacing-bos-eos"):
        read_direction(folder, CHECKPOINT, "en", "de")


def test_both_engines_translate_each_direction_also_in_a_folder_that_moved(folder, tmp_path):
    pytest.importorskip("ctranslate2")
    moved = shutil.copytree(folder, tmp_path / "moved")
    found = {}
    for source, target in (("en", "de"), ("en", "fr"), ("de", "en")):
        both = [
            Translator(moved, Search(1, 1.0), engine=e, source=source, target=target)
            for e in ("fairseq", "ctranslate2")
        ]
        mine, theirs = (translator.search(translator.split(SENTENCES)) for translator in both)
        assert mine == theirs and not any(line.startswith(f"__{target}__") for line in mine)
        found[source, target] = mine
    assert len(set(map(tuple, found.values()))) == 3


def test_the_search_is_fairseqs_behind_the_tag(folder):
    """fairseq counts the tag's log-probability; without a normalisation the ranks are the same."""
    engine = Translator(folder, source="en", target="de").engine
    hub, tag = engine.hub, engine.hub.tgt_dict.index("__de__")
    assert hub.task.target_tag == tag
    tokens = [hub.binarize(f"__en__ {sentence}") for sentence in SENTENCES]
    actual = hub.generate(tokens, beam=4, max_len_b=20, unnormalized=True)
    search = SequenceGenerator(hub.models, hub.tgt_dict, beam_size=4, max_len_b=20, normalize_scores=False)
    for source, mine in zip(tokens, actual):
        sample = {"net_input": {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}}
        (stock,) = search.generate(hub.models, sample, prefix_tokens=torch.tensor([[tag]]))
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in stock]
        for a, b in zip(mine, stock):
            torch.testing.assert_close(a["positional_scores"][1:], b["positional_scores"][1:], rtol=1e-4, atol=5e-5)
            assert a["positional_scores"][0] == 0 > b["positional_scores"][0]
    by_fairseq = hub.generate(tokens, beam=2, max_len_b=20, no_repeat_ngram_size=9)
    assert {int(hypothesis["tokens"][0]) for beams in by_fairseq for hypothesis in beams} == {tag}
