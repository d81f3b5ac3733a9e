"""Hugging Face folders with random weights, made without the library, their conversion, and the converted model."""

import json

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from fairseq_rope.__main__ import main
from fairseq_rope.wordpieces import SPECIAL

KINDS = ["bert", "roformer"]
PIECES = [
    *"[PAD] [unused1] the king sees a dog ##s [UNK] [CLS] [SEP] [MASK] old . 今 天 今天 很 好 。 play ##ing".split(),
    "\u2028",  # as in BERT's Chinese vocabulary
]
IDS = torch.tensor([[9, 2, 12, 3, 11, 5, 6, 13, 10], [9, 2, 4, 3, 6, 7, 20, 21, 10]])  # [CLS] ... [MASK] ... [SEP]
C, F, LAYERS, POSITIONS = 16, 24, 2, 32

CONFIG = dict(
    vocab_size=len(PIECES),
    hidden_size=C,
    intermediate_size=F,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    max_position_embeddings=POSITIONS,
    type_vocab_size=2,
    hidden_act="gelu",
    layer_norm_eps=1e-12,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    pad_token_id=0,
)


def tensors(kind):
    """Random ones by name, large enough to be felt."""
    shapes = {"embeddings.word_embeddings": (len(PIECES), C), "embeddings.token_type_embeddings": (2, C)}
    if kind == "bert":
        shapes["embeddings.position_embeddings"] = (POSITIONS, C)
    modules = {"embeddings.LayerNorm": (C,)}
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        modules.update({f"{layer}.attention.self.{name}": (C, C) for name in ("query", "key", "value")})
        modules.update({f"{layer}.attention.output.dense": (C, C), f"{layer}.attention.output.LayerNorm": (C,)})
        modules.update({f"{layer}.intermediate.dense": (F, C), f"{layer}.output.dense": (C, F)})
        modules[f"{layer}.output.LayerNorm"] = (C,)
    modules = {f"{kind}.{name}": shape for name, shape in modules.items()}
    modules.update({"cls.predictions.transform.dense": (C, C), "cls.predictions.transform.LayerNorm": (C,)})
    shapes = {f"{kind}.{name}.weight": shape for name, shape in shapes.items()}
    for name, shape in modules.items():
        shapes.update({f"{name}.weight": shape, f"{name}.bias": shape[:1]})
    shapes.update({f"{kind}.pooler.dense.weight": (C, C), f"{kind}.pooler.dense.bias": (C,)})
    shapes["cls.predictions.bias"] = (len(PIECES),)
    generator = torch.Generator().manual_seed(1)
    return {name: 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def folder(path, kind, weights=None, **config):
    """A folder at ``path``, with its weights in a pickle, which needs no package."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": kind, **CONFIG, **config}))
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    torch.save(tensors(kind) if weights is None else weights, path / "pytorch_model.bin")
    return path


def convert(*arguments):
    return main(["convert", *map(str, arguments)])


def load(run):
    models, _, task = load_model_ensemble_and_task([str(run / "checkpoint.pt")], {"data": str(run)})
    return models[0].eval(), task.source_dictionary


@torch.no_grad()
def logits(run, ids):
    """Ours, for the library's numbers of word pieces, in the library's order."""
    model, dictionary = load(run)
    columns = torch.tensor([dictionary.index(SPECIAL.get(piece, piece)) for piece in PIECES])
    return model(columns[ids])[0][..., columns]
