"""Masked RoFormer and BERT of Hugging Face's folders: what is equal here, what comes back, and what is refused."""

import argparse
import json
import os
import pickle

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from torch.nn import functional as F

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint
from fairseq_rope.wordpieces import SPECIAL

from ..disks import full_disk
from ..helpers import FP32
from .hugging_face import CONFIG, PIECES, C, folder, tensors

KINDS = ["bert", "roformer"]
IDS = torch.tensor([[9, 2, 12, 3, 11, 5, 6, 13, 10], [9, 2, 4, 3, 6, 7, 20, 21, 10]])  # [CLS] ... [MASK] ... [SEP]


def convert(*arguments):
    return main(["convert", *map(str, arguments)])


def refused(capsys, *arguments):
    assert convert(*arguments) == 1
    message = capsys.readouterr().err
    assert message.startswith("fairseq-rope: error: ") and message.count("\n") == 1
    return message


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def converted(kind, tmp_path):
    """The model folder of a converted one."""
    assert convert(folder(tmp_path / "theirs", kind), "--to", "plugin", "--out", tmp_path / "run") == 0
    return tmp_path / "run"


def load(run):
    models, _, task = load_model_ensemble_and_task([str(run / "checkpoint.pt")], {"data": str(run)})
    return models[0].eval(), task.source_dictionary


@torch.no_grad()
def logits(run, ids):
    """Ours, for the library's numbers of word pieces, in the library's order."""
    model, dictionary = load(run)
    columns = torch.tensor([dictionary.index(SPECIAL.get(piece, piece)) for piece in PIECES])
    return model(columns[ids])[0][..., columns]


def rotated(x):
    """RoFormer, eq. 34: ``x`` ``(B, H, T, D)``, pairs of neighbours."""
    rotation = torch.zeros(x.size(2), x.size(3), x.size(3))
    for i in range(x.size(2)):
        for m in range(x.size(3) // 2):
            angle = torch.tensor(i * 10000 ** (-2 * m / x.size(3)))
            pair = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
            rotation[i, 2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = pair
    return torch.einsum("tde,bhte->bhtd", rotation, x)


def expected_logits(kind, weights, ids, head=None):
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
    return F.linear(x, words if head is None else head, weights["cls.predictions.bias"])


def test_the_logits_are_those_of_the_equations(kind, converted):
    torch.testing.assert_close(logits(converted, IDS), expected_logits(kind, tensors(kind), IDS), **FP32)


def test_a_head_of_its_own_stays_apart(kind, tmp_path):
    head = torch.randn(len(PIECES), C)
    weights = {**tensors(kind), "cls.predictions.decoder.weight": head}
    theirs = folder(tmp_path / "theirs", kind, weights, tie_word_embeddings=False)
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    torch.testing.assert_close(logits(tmp_path / "run", IDS), expected_logits(kind, weights, IDS, head), **FP32)


def test_special_symbols_are_fairseqs_and_all_words_have_their_rows(kind, converted):
    model, dictionary = load(converted)
    assert dictionary.symbols[:4] == ["<s>", "<pad>", "</s>", "<unk>"] and len(dictionary) == len(PIECES)
    words = tensors(kind)[f"{kind}.embeddings.word_embeddings.weight"]
    for number, piece in enumerate(PIECES):
        row = model.encoder.sentence_encoder.embed_tokens.weight[dictionary.index(SPECIAL.get(piece, piece))]
        assert torch.equal(row, words[number])
    assert model.encoder.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight


def test_there_and_back_gives_the_same_tensors_and_settings(kind, converted, tmp_path, capsys):
    library = pytest.importorskip("safetensors.torch")
    assert convert(converted, "--to", "hugging-face", "--out", tmp_path / "back") == 0
    assert f"{converted} as {'Bert' if kind == 'bert' else 'RoFormer'}ForMaskedLM" in capsys.readouterr().out
    back, before = library.load_file(tmp_path / "back/model.safetensors"), tensors(kind)
    assert back.keys() - before.keys() <= {"roformer.encoder.embed_positions.weight"}
    assert all(torch.equal(value, back[name]) for name, value in before.items())
    config = json.loads((tmp_path / "back/config.json").read_text())
    assert CONFIG.items() <= config.items() and config["model_type"] == kind
    assert (tmp_path / "back/vocab.txt").read_bytes() == (tmp_path / "theirs/vocab.txt").read_bytes()
    assert convert(tmp_path / "back", "--to", "plugin", "--out", tmp_path / "again") == 0
    states = [load_checkpoint(run / "checkpoint.pt")["model"] for run in (converted, tmp_path / "again")]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


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


def test_the_names_of_old_weights_and_half_precision_are_read(tmp_path):
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value.half()
        for name, value in tensors("bert").items()
    }
    theirs = folder(tmp_path / "theirs", "bert", {**weights, "bert.embeddings.position_ids": torch.arange(32)[None]})
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    precise = {name: value.half().float() for name, value in tensors("bert").items()}
    torch.testing.assert_close(logits(tmp_path / "run", IDS), expected_logits("bert", precise, IDS), **FP32)


def test_it_says_what_is_not_in_the_model(kind, tmp_path, capsys):
    convert(folder(tmp_path / "theirs", kind), "--to", "plugin", "--out", tmp_path / "run")
    said = capsys.readouterr().out
    assert "not in the model, and kept for the way back: the pooler, token types above 0 (1)" in said


@pytest.mark.parametrize(
    "kind,config,settings,expected",
    [
        ("bert", {}, None, "BertTokenizer"),
        ("roformer", {}, None, "RoFormerTokenizer"),
        ("roformer", {}, {"do_lower_case": False}, "RoFormerTokenizer"),
        ("roformer", {"tokenizer_class": "BertTokenizer"}, {"do_lower_case": False}, "BertTokenizer"),
        ("roformer", {}, {"tokenizer_class": "BertTokenizer"}, "BertTokenizer"),
    ],
)
def test_the_tokeniser_is_the_librarys_choice(kind, config, settings, expected, tmp_path):
    theirs = folder(tmp_path / "theirs", kind, **config)
    if settings is not None:
        (theirs / "tokenizer_config.json").write_text(json.dumps(settings))
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    kept = json.loads((tmp_path / "run/tokenizer_config.json").read_text())
    assert kept["tokenizer_class"] == expected
    assert kept["do_lower_case"] is (settings or {}).get("do_lower_case", True)


class Program:
    def __reduce__(self):
        return os.system, ("echo it ran",)


def with_tensors(**changes):
    return {name: value for name, value in {**tensors("bert"), **changes}.items() if value is not None}


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
WRONG_CONFIG = {
    "kind": (dict(model_type="gpt2"), "its model_type is 'gpt2': only roformer and bert can be converted"),
    "type of the kind": (dict(model_type=["bert"]), "its model_type is ['bert']: only"),
    "text for a number": (dict(hidden_size="16"), "hidden_size is '16': it must be a whole number of at least 1"),
    "truth for a number": (dict(num_hidden_layers=True), "num_hidden_layers is True: it must be a whole number"),
    "huge": (dict(num_hidden_layers=10**30), "it must be a whole number"),
    "more layers": (
        dict(num_hidden_layers=2**31 - 1),
        "there is no tensor bert.encoder.layer.2.attention.self.query.w",
    ),
    "eps": (dict(layer_norm_eps=float("nan")), "layer_norm_eps is nan: it must be a number from 0 to 1"),
    "heads": (dict(num_attention_heads=3), "num_attention_heads is 3: it must divide hidden_size 16 into heads"),
    "embeddings": (dict(embedding_size=8), "embedding_size is 8: it must be hidden_size 16: a projection"),
    "activation": (dict(hidden_act="silu"), "hidden_act is 'silu': it must be one of gelu, relu, tanh, gelu_new"),
    "positions": (
        dict(position_embedding_type="relative_key"),
        "position_embedding_type is 'relative_key': it must be \"",
    ),
    "decoder": (dict(is_decoder=True), "is_decoder is True: it must be false: the masked models here do nothing else"),
    "rows": (dict(max_position_embeddings=64), "position_embeddings.weight is float32 of shape (32, 16), not floating"),
    "words": (dict(vocab_size=99), "vocab.txt has 22 word pieces, but vocab_size is 99 in config.json: take both from"),
    "padding": (dict(pad_token_id=1), "pad_token_id is 1, but [PAD] is 0 in vocab.txt"),
    "tied": (dict(tie_word_embeddings="no"), "tie_word_embeddings is 'no': it must be true or false"),
}
WRONG_WEIGHTS = {
    "missing": (
        with_tensors(**{QUERY: None}),
        f"there is no tensor {QUERY}: give the folder of a BertForMaskedLM with",
    ),
    "shape": (
        with_tensors(**{QUERY: torch.zeros(8, 16)}),
        f"{QUERY} is float32 of shape (8, 16), not floating-point of",
    ),
    "integers": (with_tensors(**{QUERY: torch.zeros(16, 16, dtype=torch.int8)}), "is int8 of shape (16, 16), not"),
    "further": (with_tensors(classifier=torch.zeros(2)), "'classifier' has no place in a masked model here"),
    "head": (with_tensors(**{"cls.predictions.bias": None}), "there is no tensor cls.predictions.bias"),
    "untied": (
        with_tensors(**{"cls.predictions.decoder.weight": torch.zeros(22, 16)}),
        "cls.predictions.decoder.weight differs from the embeddings: set tie_word_embeddings to false",
    ),
    "biases": (
        with_tensors(**{"cls.predictions.decoder.bias": torch.zeros(22)}),
        "cls.predictions.decoder.bias differ",
    ),
    "no tensors": ({"epoch": 3}, "pytorch_model.bin: not the tensors of a model by name"),
}
WRONG_FILES = {
    "code": ("pytorch_model.bin", pickle.dumps(Program()), "refused: it holds objects that could run code: take the"),
    "half a pickle": (
        "pytorch_model.bin",
        b"PK\x03\x04 half",
        "pytorch_model.bin: damaged: take the model's model.saf",
    ),
    "shards": ("pytorch_model.bin.index.json", b"{}", "its weights are in several files: join them with transformers'"),
    "no JSON": ("config.json", b"{", "config.json: not JSON (Expecting"),
    "deep": ("config.json", b"[" * 100000, "config.json: not JSON ("),
    "a list": ("config.json", b"[]", "config.json: not an object of JSON"),
    "twice": ("vocab.txt", b"[PAD]\nthe\nthe\n", "vocab.txt, line 3: 'the' is in line 2 already: fetch it again"),
    "newline": ("vocab.txt", b"[PAD]\n\nthe\n", "vocab.txt, line 2: '' is not one piece without spaces"),
    "carriage": ("vocab.txt", b"[PAD]\nt\rhe\n", r"line 2: 't\rhe' is not one piece without spaces"),
    "fairseq's": ("vocab.txt", b"[PAD]\n<pad>\n", "line 2: <pad> is a special symbol of fairseq"),
    "no symbol": ("vocab.txt", b"[PAD]\nthe\n", "vocab.txt: there is no [CLS]: a vocabulary of BERT's word pieces has"),
    "bytes": ("vocab.txt", b"\xff\n", "vocab.txt: not UTF-8 (invalid start byte)"),
    "settings": ("tokenizer_config.json", b'{"do_lower_case": "no"}', "do_lower_case must be true or false, not 'no'"),
}


def assert_refused_whole(tmp_path, capsys, message):
    assert message in refused(capsys, tmp_path / "theirs", "--to", "plugin", "--out", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("case", WRONG_CONFIG)
def test_a_config_that_cannot_be_carried_is_refused_in_one_line(case, tmp_path, capsys):
    changes, message = WRONG_CONFIG[case]
    folder(tmp_path / "theirs", **{"kind": "bert", **changes})
    assert_refused_whole(tmp_path, capsys, message)


@pytest.mark.parametrize("case", WRONG_WEIGHTS)
def test_weights_that_do_not_fit_are_refused_in_one_line(case, tmp_path, capsys):
    weights, message = WRONG_WEIGHTS[case]
    folder(tmp_path / "theirs", "bert", weights)
    assert_refused_whole(tmp_path, capsys, message)


@pytest.mark.parametrize("case", WRONG_FILES)
def test_hostile_files_are_refused_in_one_line(case, tmp_path, capsys):
    name, content, message = WRONG_FILES[case]
    (folder(tmp_path / "theirs", "bert") / name).write_bytes(content)
    assert_refused_whole(tmp_path, capsys, message)


def test_rotated_values_and_other_angles_are_refused(tmp_path, capsys):
    folder(tmp_path / "theirs", "roformer", rotary_value=True)
    assert_refused_whole(tmp_path, capsys, "rotary_value is True: it must be false")
    other = folder(
        tmp_path / "other",
        "roformer",
        {**tensors("roformer"), "roformer.encoder.embed_positions.weight": torch.ones(32, 8)},
    )
    assert "has other angles than RoFormer's" in refused(capsys, other, "--to", "plugin", "--out", tmp_path / "run")


def test_truncated_safetensors_are_refused(tmp_path, capsys):
    library = pytest.importorskip("safetensors.torch")
    theirs = folder(tmp_path / "theirs", "bert")
    library.save_file(tensors("bert"), theirs / "model.safetensors")
    whole = (theirs / "model.safetensors").read_bytes()
    for size in (4, 100, len(whole) - 8):
        (theirs / "model.safetensors").write_bytes(whole[:size])
        assert_refused_whole(tmp_path, capsys, "model.safetensors: damaged (")
    (theirs / "model.safetensors").write_bytes(whole)
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, capsys):
    theirs = folder(tmp_path / "theirs", "bert")
    with full_disk(tmp_path / "full", 8192) as disk:
        message = refused(capsys, theirs, "--to", "plugin", "--out", disk / "run")
        assert f"error: {disk / 'run'}" in message and ("No space left" in message or "is there room?" in message)
        assert [path.name for path in disk.iterdir()] == ["fill"]


def test_wrong_calls_are_refused(converted, tmp_path, capsys):
    there = ("--to", "hugging-face", "--out", tmp_path / "back")
    assert "exists already" in refused(capsys, tmp_path / "theirs", "--to", "plugin", "--out", converted)
    assert "no such checkpoint" in refused(capsys, tmp_path, *there)
    assert "config.json: missing" in refused(capsys, converted, "--to", "plugin", "--out", tmp_path / "again")
    state = load_checkpoint(converted / "checkpoint.pt")
    changes = dict(
        encoder_position=("tupe_a", "--encoder-position tupe_a cannot be converted: RoFormer has rope, BERT learned"),
        encoder_normalize_before=(True, "--encoder-normalize-before must be False as in BERT, not True"),
        activation_fn=("relu_squared", "--activation-fn relu_squared must be one of gelu, relu"),
        arch=("roformer_tiny", "roformer_tiny is not a masked language model of this plugin"),
    )
    for name, (value, message) in changes.items():
        cfg = argparse.Namespace(**{**vars(state["cfg"]["model"]), name: value})
        save_checkpoint({**state, "cfg": {**state["cfg"], "model": cfg}}, converted / "other.pt")
        assert message in refused(capsys, converted / "other.pt", *there)
    (converted / "vocab.txt").write_text("\n".join(["more", *PIECES]))
    assert "vocab.txt and dict.txt have different words" in refused(capsys, converted, *there)
    (converted / "vocab.txt").unlink()
    assert "vocab.txt: missing: only models of BERT's word pieces" in refused(capsys, converted, *there)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "theirs"]
