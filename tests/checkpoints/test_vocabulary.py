"""A trained model with a larger dictionary: old words as before, new ones as in a new training."""

import argparse

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

from fairseq_rope.checkpoints.files import CheckpointError
from fairseq_rope.checkpoints.vocabulary import grow

from ..helpers import FIRST, decoder_input, task
from ..positions.whole_models import logits
from .test_positions import arch, options

WORDS = [f"w{number}" for number in range(30)]
ADDED = ["<2de>", "<2fr>"]

TABLES = ("embed_tokens.weight", "output_projection.weight", "lm_head.weight")


def dictionary_file(path, words):
    path.write_text("".join(f"{word} 1\n" for word in words))
    return path


def model_and_words(kind, file, cfg=None, state=None):
    """The model of a configuration, new or with these parameters, as the task of its kind builds it."""
    that, words = task(), Dictionary.load(str(file))
    if kind == "mlm":
        words.add_symbol("<mask>")
    that.source_dictionary = that.target_dictionary = words
    torch.manual_seed(1)
    model = build_model(cfg or options(arch(kind, "rope"), kind), that).eval()
    if state:
        model.load_state_dict(state)
    return model, words


@pytest.mark.parametrize(
    ("kind", "marks"), [("translation", ["<mask>"]), ("lm", ["<mask>"]), ("mlm", []), ("mlm", ["<mask>"])]
)
def test_old_words_stay_and_new_ones_begin_as_in_a_new_training(kind, marks, tmp_path):
    """A dictionary may have ``<mask>``; the task of masked models adds it at the end of one that has not."""
    cfg, old_file, new_file = (options(arch(kind, "rope"), kind), tmp_path / "old", tmp_path / "new")
    words = [*WORDS, *marks]
    old, old_words = model_and_words(kind, dictionary_file(old_file, words), cfg)
    state = {"args": None, "cfg": {"model": cfg}, "model": old.state_dict(), "last_optimizer_state": {}}
    state["extra_state"] = {"ema": {}, "epoch": 1}
    grown = grow(state, [dictionary_file(new_file, [*words, *ADDED])])
    assert "last_optimizer_state" not in grown and grown["extra_state"] == {"epoch": 1}
    cfg = argparse.Namespace(**vars(grown["cfg"]["model"]))
    new, new_words = model_and_words(kind, new_file, cfg, grown["model"])
    assert cfg.dictionaries == grown["cfg"]["model"].dictionaries  # so that training finds its own words
    text = torch.randint(FIRST, len(old_words) - 1, (2, 9))
    before, after = (logits(model, text, decoder_input(text)) for model in (old, new))
    places = [new_words.index(word) for word in old_words.symbols]
    assert (after[..., places] - before).abs().max() < 1e-5
    tables = [rows for name, rows in grown["model"].items() if name.endswith(TABLES)]
    assert len(tables) > 1
    added = torch.stack([rows[[new_words.index(word) for word in ADDED]] for rows in tables])
    assert torch.equal(added, added[:1].expand_as(added)) and not torch.equal(added[0, 0], added[0, 1])
    std = 0.02 if kind == "mlm" else tables[0].size(1) ** -0.5
    assert added[0].std().item() == pytest.approx(std, rel=0.5)


def test_a_dictionary_with_other_words_is_refused(tmp_path):
    cfg = options(arch("translation", "rope"), "translation")
    old, _ = model_and_words("translation", dictionary_file(tmp_path / "old", WORDS), cfg)
    state = {"args": None, "cfg": {"model": cfg}, "model": old.state_dict()}
    for name, words in {"fewer": WORDS[:-1], "others": [*WORDS[:-2], "x", "y", "z"]}.items():
        with pytest.raises(CheckpointError, match=f"{name} is not the encoder's dictionary"):
            grow(state, [dictionary_file(tmp_path / name, words)])
    with pytest.raises(CheckpointError, match="nowhere"):
        grow(state, [tmp_path / "nowhere"])


def test_an_output_in_clusters_is_refused(tmp_path):
    cfg = options(arch("lm", "rope"), "lm", adaptive_softmax_cutoff="10", share_decoder_input_output_embed=False)
    old, _ = model_and_words("lm", dictionary_file(tmp_path / "old", WORDS), cfg)
    state = {"args": None, "cfg": {"model": cfg}, "model": old.state_dict()}
    with pytest.raises(CheckpointError, match="--adaptive-softmax-cutoff 10"):
        grow(state, [dictionary_file(tmp_path / "new", [*WORDS, *ADDED])])
