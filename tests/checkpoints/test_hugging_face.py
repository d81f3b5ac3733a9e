"""Masked RoFormer and BERT of Hugging Face's folders: what is equal here, and what comes back."""

import json

import pytest
import torch
from torch.nn import functional as F

from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint

from ..commands import failure
from ..helpers import FP32, same
from ..positions.equations import rotation_matrix
from .hugging_face import CONFIG, IDS, PIECES, C, convert, folder, logits, tensors


def rotated(x):
    """RoFormer, eq. 34: ``x`` ``(B, H, T, D)``, pairs of neighbours."""
    rotation = torch.stack([rotation_matrix(i, x.size(3)).float() for i in range(x.size(2))])
    return torch.einsum("tde,bhte->bhtd", rotation, x)


def expected_logits(kind, weights, ids, head=None, bias="cls.predictions.bias"):
    """BERT (Devlin et al. 2019) and RoFormer, from the tensors of the folder."""

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (C,), weights[f"{name}.weight"], weights[f"{name}.bias"], CONFIG["layer_norm_eps"])

    def heads(x):
        return x.unflatten(-1, (CONFIG["num_attention_heads"], -1)).transpose(1, 2)

    words = weights[f"{kind}.embeddings.word_embeddings.weight"]
    x = words[ids] + weights[f"{kind}.embeddings.token_type_embeddings.weight"][0]
    if kind == "bert":
        x = x + weights["bert.embeddings.position_embeddings.weight"][: ids.size(1)]
    x = norm(x, f"{kind}.embeddings.LayerNorm")
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"{kind}.encoder.layer.{i}"
        q, k, v = (heads(linear(x, f"{layer}.attention.self.{name}")) for name in ("query", "key", "value"))
        q, k = (rotated(q), rotated(k)) if kind == "roformer" else (q, k)
        weighted = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1) @ v
        attended = linear(weighted.transpose(1, 2).flatten(2), f"{layer}.attention.output.dense")
        x = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = F.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    x = norm(F.gelu(linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm")
    return F.linear(x, words if head is None else head, weights[bias])


def test_the_logits_are_those_of_the_equations(kind, converted):
    torch.testing.assert_close(logits(converted, IDS), expected_logits(kind, tensors(kind), IDS), **FP32)


@pytest.mark.parametrize("bias", ["cls.predictions.bias", "cls.predictions.decoder.bias"])
def test_a_head_of_its_own_stays_apart_with_the_bias_with_which_transformers_5_computes(kind, bias, tmp_path):
    head = torch.randn(len(PIECES), C)
    weights = {**tensors(kind), "cls.predictions.decoder.weight": head, bias: torch.randn(len(PIECES))}
    theirs = folder(tmp_path / "theirs", kind, weights, tie_word_embeddings=False)
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    expected = expected_logits(kind, weights, IDS, head, bias)
    torch.testing.assert_close(logits(tmp_path / "run", IDS), expected, **FP32)


def test_there_and_back_gives_the_same_tensors_and_settings(kind, converted, tmp_path):
    """But not the number format: with it, transformers 5 would round what a training in fp32 has changed since."""
    library = pytest.importorskip("safetensors.torch")
    assert convert(converted, "--to", "hugging-face", "--out", tmp_path / "back") == 0
    back, before = library.load_file(tmp_path / "back/model.safetensors"), tensors(kind)
    assert back.keys() - before.keys() <= {"roformer.encoder.embed_positions.weight"}
    assert all(torch.equal(value, back[name]) for name, value in before.items())
    config = json.loads((tmp_path / "back/config.json").read_text())
    assert CONFIG.items() <= config.items() and config["model_type"] == kind
    assert not {"dtype", "torch_dtype"} & config.keys()
    assert (tmp_path / "back/vocab.txt").read_bytes() == (tmp_path / "theirs/vocab.txt").read_bytes()
    assert convert(tmp_path / "back", "--to", "plugin", "--out", tmp_path / "again") == 0
    states = [load_checkpoint(run / "checkpoint.pt")["model"] for run in (converted, tmp_path / "again")]
    assert same(*states)


def test_a_checkpoint_of_a_further_training_has_its_way_back_as_well(kind, converted, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    state = load_checkpoint(converted / "checkpoint.pt")
    state["model"]["encoder.token_type"] += 1
    state["model"]["classification_heads.topic.out_proj.weight"] = torch.zeros(2, C)
    save_checkpoint({name: value for name, value in state.items() if name != "hugging_face"}, converted / "later.pt")
    assert convert(converted / "later.pt", "--to", "hugging-face", "--out", tmp_path / "back") == 0
    back, before = library.load_file(tmp_path / "back/model.safetensors"), tensors(kind)
    types = f"{kind}.embeddings.token_type_embeddings.weight"
    assert torch.equal(back[types], before[types][:1] + 1)
    assert before.keys() - back.keys() == {f"{kind}.pooler.dense.weight", f"{kind}.pooler.dense.bias"}
    config = json.loads((tmp_path / "back/config.json").read_text())
    assert {**CONFIG, "type_vocab_size": 1}.items() <= config.items()
    assert convert(tmp_path / "back", "--to", "plugin", "--out", tmp_path / "again") == 0
    weights = {**before, types: back[types]}
    torch.testing.assert_close(logits(tmp_path / "again", IDS), expected_logits(kind, weights, IDS), **FP32)


def test_the_vocabulary_is_read_from_what_transformers_5_writes(tmp_path, capsys):
    theirs = folder(tmp_path / "new", "bert")
    given = (theirs / "vocab.txt").read_bytes()
    (theirs / "vocab.txt").unlink()
    numbers = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = {"model": {"type": "WordPiece", "vocab": dict(sorted(numbers.items()))}}
    (theirs / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "made") == 0
    assert (tmp_path / "made/vocab.txt").read_bytes() == given
    for vocab in ({**numbers, "dog": 99}, [["dog", -1.5]]):
        (theirs / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))
        assert "word pieces" in failure(capsys, "convert", theirs, "--to", "plugin", "--out", tmp_path / "other")


def test_with_other_positions_it_comes_back_as_the_other_model(tmp_path):
    """Which has no further token types: these were BERT's."""
    library, changed = pytest.importorskip("safetensors.torch"), tmp_path / "run/rope.pt"
    assert convert(folder(tmp_path / "theirs", "bert"), "--to", "plugin", "--out", tmp_path / "run") == 0
    assert convert(tmp_path / "run", "--position", "rope", "--out", changed) == 0
    assert convert(changed, "--to", "hugging-face", "--out", tmp_path / "back") == 0
    config = json.loads((tmp_path / "back/config.json").read_text())
    types = library.load_file(tmp_path / "back/model.safetensors")["roformer.embeddings.token_type_embeddings.weight"]
    assert config["model_type"] == "roformer" and config["type_vocab_size"] == len(types) == 1


def test_the_names_of_old_weights_and_half_precision_are_read(tmp_path):
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value.half()
        for name, value in tensors("bert").items()
    }
    theirs = folder(tmp_path / "theirs", "bert", {**weights, "bert.embeddings.position_ids": torch.arange(32)[None]})
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    precise = {name: value.half().float() for name, value in tensors("bert").items()}
    torch.testing.assert_close(logits(tmp_path / "run", IDS), expected_logits("bert", precise, IDS), **FP32)


@pytest.mark.parametrize(
    "kind, settings, expected",
    [
        ("bert", {}, "BertTokenizer"),
        ("roformer", {"do_lower_case": False}, "RoFormerTokenizer"),
        ("roformer", {"tokenizer_class": "BertTokenizer"}, "BertTokenizer"),
    ],
)
def test_the_tokeniser_is_the_librarys_choice(kind, settings, expected, tmp_path):
    theirs = folder(tmp_path / "theirs", kind)
    if settings:
        (theirs / "tokenizer_config.json").write_text(json.dumps(settings))
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    kept = json.loads((tmp_path / "run/tokenizer_config.json").read_text())
    assert (kept["tokenizer_class"], kept["do_lower_case"]) == (expected, settings.get("do_lower_case", True))
