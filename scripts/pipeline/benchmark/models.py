"""Builds models and batches as fairseq's own tools do, but with random words in memory: the same in each call."""

import argparse
from typing import Any, Dict, Iterable, List, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset, MaskTokensDataset
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from torch import nn

from fairseq_rope.architectures import ARCHITECTURES

from ..command import Failure, as_failure

MEAN_LENGTH = 28
"""Tokens of a mean sentence of WMT14 English-German in 37,000 subwords, with ``</s>``."""

POOL = 20000
"""This many sentences at least are sorted by length, as fairseq does it; the batch comes from their middle."""

TEXT_LENGTH = 512
"""Tokens of a block of running text, as BERT and both papers have them."""

Batch = Dict[str, Any]


def configure(args: argparse.Namespace) -> Any:
    """The configuration that a tool of fairseq makes of its options."""
    args.tpu = False  # fairseq-train takes --bf16 for a TPU
    cfg = convert_namespace_to_omegaconf(args)
    add_defaults(cfg)
    return cfg


def make_task(cfg: Any, words: Dictionary) -> Any:
    """The task of a configuration, with this dictionary on all its sides."""
    task = TASK_REGISTRY[cfg.task._name]
    return task(cfg.task, words) if cfg.task._name == "masked_lm" else task(cfg.task, words, words)


def build_model(task: Any, cfg: Any) -> Any:
    """The model of a configuration, with fairseq's initial parameters."""
    with as_failure():
        return task.build_model(cfg.model)


def same_parameters(model: nn.Module, other: nn.Module) -> None:
    """Copies the parameters that ``model`` shares with ``other`` by name and shape."""
    own, others = dict(model.named_parameters()), dict(other.named_parameters())
    with torch.no_grad():
        for name in set(own) & set(others):
            if own[name].shape == others[name].shape:
                own[name].copy_(others[name])


def flops(model: nn.Module) -> Dict[str, float]:
    """Floating-point operations of a forward pass, in matrix products with parameters, for each token by its side.

    Two for each weight of the encoder and of the keys and values of the attention to it, for a ``source`` token; two
    for each of the rest of the decoder and of the vocabulary's projection, for a ``target`` token; likewise for the
    head of a masked model, or for its head of classification if it has one. What attention and position encodings
    multiply besides is not counted.
    """
    counts = {"source": 0.0, "target": 0.0}
    classifies = bool(getattr(model, "classification_heads", None))
    for name, module in model.named_modules():
        is_head = name.startswith("encoder.lm_head")
        if is_head and classifies:
            continue
        if (isinstance(module, nn.Linear) and "position" not in name.split(".")) or name == "encoder.lm_head":
            of_source = name.startswith("encoder.") and not is_head
            of_source |= name.endswith(("encoder_attn.k_proj", "encoder_attn.v_proj"))
            counts["source" if of_source else "target"] += 2.0 * module.weight.numel()
    return counts


def dictionary(types: int) -> Dictionary:
    """A dictionary with this number of types, including the special symbols."""
    words = Dictionary()
    for number in range(types - len(words)):
        words.add_symbol(f"w{number}")
    return words


def make_batch(task: str, words: Dictionary, tokens: int = 0, sentences: int = 0, length: int = 0) -> Batch:
    """A batch as a task of fairseq's receives it.

    Args:
        task: one of :data:`..tasks.TASKS`.
        tokens: number of target tokens, about; not used if ``sentences`` is given.
        sentences: size of the batch, or 0: ``tokens`` determines it.
        length: length of each sentence, or 0: lengths like those of WMT, of running text :data:`TEXT_LENGTH`.
    """
    if task in ("masked_lm", "language_modeling"):
        length = length or TEXT_LENGTH
    sentences = sentences or max(1, round(tokens / (length or MEAN_LENGTH)))
    if task == "translation":
        return _pairs(words, [(length, length)] * sentences if length else _similar_lengths(sentences))
    if task == "sentence_prediction":
        return _examples(words, sentences, length)
    return _blocks(words, sentences, length, masked=task == "masked_lm")


def size_of(archs: Iterable[str]) -> str:
    """The size that these architectures of this package have, ``base`` without one; fairseq's own do not count."""
    sizes = sorted({ARCHITECTURES[arch].size for arch in archs if arch in ARCHITECTURES})
    if len(sizes) > 1:
        raise Failure(f"--archs are of the sizes {', '.join(sizes)}: name those of one size")
    return sizes[0] if sizes else "base"


def _wmt_lengths(pool: int = POOL) -> Tuple[np.ndarray, np.ndarray]:
    """Lengths of so many pairs, source and target, sorted by both."""
    random = np.random.default_rng(1)
    sigma = 0.55
    target = np.exp(random.normal(np.log(MEAN_LENGTH) - sigma**2 / 2, sigma, pool))
    source = target * np.exp(random.normal(0, 0.15, pool))
    target, source = (side.round().clip(3, 150).astype(int) for side in (target, source))
    order = np.lexsort((target, source))
    return source[order], target[order]


def _similar_lengths(sentences: int) -> List[Tuple[int, int]]:
    """Source and target lengths of pairs that fairseq would put into one batch."""
    source, target = _wmt_lengths(pool := max(POOL, 250 * sentences))
    middle = sum(np.searchsorted(source, MEAN_LENGTH, side) for side in ("left", "right")) // 2
    first = min(max(0, middle - sentences // 2), pool - sentences)
    chosen = slice(first, first + sentences)
    return list(zip(source[chosen].tolist(), target[chosen].tolist()))


def _pairs(words: Dictionary, lengths: List[Tuple[int, int]]) -> Batch:
    random = torch.Generator().manual_seed(1)

    def sentence(size: int) -> torch.Tensor:
        ids = torch.randint(words.nspecial, len(words), (size,), generator=random)
        ids[-1] = words.eos()
        return ids

    sources, targets = zip(*[(sentence(source), sentence(target)) for source, target in lengths])
    sizes = np.array(lengths).T
    data = LanguagePairDataset(sources, sizes[0], words, targets, sizes[1], words, shuffle=False)
    batch: Batch = data.collater([data[i] for i in range(len(lengths))])
    return batch


def _blocks(words: Dictionary, sentences: int, length: int, masked: bool) -> Batch:
    """Running text. Each token is to be predicted from the earlier ones; if ``masked``, 15% of them from the others."""
    random = torch.Generator().manual_seed(1)
    text = torch.randint(words.nspecial, len(words), (sentences, length + 1), generator=random)
    source, target = text[:, :-1], text[:, 1:]
    if masked:
        blocks = ListDataset(list(source), [length] * sentences)
        mask = {"pad_idx": words.pad(), "mask_idx": words.add_symbol("<mask>"), "seed": 1}
        sides = MaskTokensDataset.apply_mask(blocks, words, **mask)
        source, target = (torch.stack([side[number] for number in range(sentences)]) for side in sides)
    return _of_text(source.contiguous(), torch.full((sentences,), length), target.contiguous())


def _examples(words: Dictionary, sentences: int, length: int) -> Batch:
    """Sentences of two classes in random order: their lengths are anything in WMT, and not near each other."""
    random = np.random.default_rng(2)
    lengths = np.full(sentences, length) if length else random.choice(_wmt_lengths()[0], sentences)
    text = random.integers(words.nspecial, len(words), (sentences, lengths.max()))
    text[:, 0] = words.bos()
    text[np.arange(lengths.max()) >= lengths[:, None]] = words.pad()
    return _of_text(*map(torch.from_numpy, (text, lengths, random.integers(2, size=sentences))))


def _of_text(source: torch.Tensor, lengths: torch.Tensor, target: torch.Tensor) -> Batch:
    return {
        "id": torch.arange(len(source)),
        "nsentences": len(source),
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": source, "src_lengths": lengths},
        "target": target,
    }


def about(batch: Batch, pad: int) -> Dict[str, Any]:
    """The size of a batch: sentences, tokens of both sides with ``</s>``, and the share of padding in its tensors.

    The target tokens of a masked language model are those that it predicts. Those of a classification are its
    classes, one for each sentence.
    """
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    read = [value for name, value in batch["net_input"].items() if name.endswith("_tokens")]
    counts = {"source tokens": int(source.ne(pad).sum())}
    counts["target tokens"] = len(target) if target.dim() == 1 else int(target.ne(pad).sum())
    padding = sum(int(tokens.eq(pad).sum()) for tokens in read) / sum(tokens.numel() for tokens in read)
    return {"sentences": len(target), **counts, "padding": f"{padding:.1%}"}
