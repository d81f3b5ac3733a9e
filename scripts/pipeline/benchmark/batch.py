"""Batches of random words, always the same, as fairseq's tasks receive them."""

from typing import Any, Dict, List, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset, MaskTokensDataset

from ..command import Failure

MEAN_LENGTH = 28
"""Tokens of a mean sentence of WMT14 English-German in 37,000 subwords, with ``</s>``."""

POOL = 20000
"""This many sentences are sorted by length, as fairseq does it; the batch comes from their middle."""


def dictionary(types: int) -> Dictionary:
    """A dictionary with this number of types, including the special symbols."""
    words = Dictionary()
    if types <= len(words):
        raise Failure(f"--vocabulary must be more than the {len(words)} special symbols, not {types}")
    for number in range(types - len(words)):
        words.add_symbol(f"w{number}")
    return words


def wmt_lengths() -> Tuple[np.ndarray, np.ndarray]:
    """Lengths of :data:`POOL` pairs, source and target, sorted by both; the same in each call."""
    random = np.random.default_rng(1)
    sigma = 0.55
    target = np.exp(random.normal(np.log(MEAN_LENGTH) - sigma**2 / 2, sigma, POOL))
    source = target * np.exp(random.normal(0, 0.15, POOL))
    target, source = (side.round().clip(3, 150).astype(int) for side in (target, source))
    order = np.lexsort((target, source))
    return source[order], target[order]


def choose_lengths(tokens: int, sentences: int, length: int) -> List[Tuple[int, int]]:
    """Source and target lengths of a batch with about ``tokens`` target tokens, or with ``sentences`` pairs.

    Args:
        tokens: number of target tokens; not used if ``sentences`` is given.
        sentences: size of the batch, or 0: ``tokens`` determines it.
        length: length of each sentence, or 0: lengths like those of WMT.
    """
    sentences = sentences or max(1, round(tokens / (length or MEAN_LENGTH)))
    if length:
        return [(length, length)] * sentences
    if sentences > POOL:
        raise Failure(f"a batch of {sentences:,} sentences is larger than the pool of {POOL:,}: give --length")
    source, target = wmt_lengths()
    middle = sum(np.searchsorted(source, MEAN_LENGTH, side) for side in ("left", "right")) // 2
    first = min(max(0, middle - sentences // 2), POOL - sentences)
    chosen = slice(first, first + sentences)
    return list(zip(source[chosen].tolist(), target[chosen].tolist()))


def make_batch(words: Dictionary, tokens: int = 0, sentences: int = 0, length: int = 0) -> Dict[str, Any]:
    """A batch as fairseq's tasks of translation receive it, always the same; see :func:`choose_lengths`."""
    random = torch.Generator().manual_seed(1)

    def sentence(size: int) -> torch.Tensor:
        ids = torch.randint(words.nspecial, len(words), (size,), generator=random)
        ids[-1] = words.eos()
        return ids

    pairs = [(sentence(source), sentence(target)) for source, target in choose_lengths(tokens, sentences, length)]
    sources, targets = zip(*pairs)
    sizes = [np.array([len(side) for side in sides]) for sides in (sources, targets)]
    data = LanguagePairDataset(sources, sizes[0], words, targets, sizes[1], words, shuffle=False)
    batch: Dict[str, Any] = data.collater([data[i] for i in range(len(pairs))])
    return batch


def make_blocks(words: Dictionary, tokens: int, sentences: int, length: int, masked: bool) -> Dict[str, Any]:
    """A batch of running text as fairseq's tasks for language models receive it, always the same.

    Each token is to be predicted from the earlier ones, or, if ``masked``, 15% of them from the others.
    """
    random = torch.Generator().manual_seed(1)
    shape = (len(choose_lengths(tokens, sentences, length)), length + 1)
    text = torch.randint(words.nspecial, len(words), shape, generator=random)
    source, target = text[:, :-1], text[:, 1:]
    if masked:
        blocks = ListDataset(list(source), [length] * len(source))
        mask = {"pad_idx": words.pad(), "mask_idx": words.add_symbol("<mask>"), "seed": 1}
        sides = MaskTokensDataset.apply_mask(blocks, words, **mask)
        source, target = (torch.stack([side[number] for number in range(len(blocks))]) for side in sides)
    source, target = source.contiguous(), target.contiguous()
    return {
        "id": torch.arange(len(source)),
        "nsentences": len(source),
        "ntokens": source.numel(),
        "net_input": {"src_tokens": source, "src_lengths": torch.full((len(source),), length)},
        "target": target,
    }


def make_examples(words: Dictionary, tokens: int, sentences: int, length: int) -> Dict[str, Any]:
    """A batch of a task of classification with two classes, always the same; the sentences come in random order.

    Their lengths are therefore anything in WMT, and not near each other as in :func:`make_batch`.
    """
    count, random = len(choose_lengths(tokens, sentences, length)), np.random.default_rng(2)
    lengths = np.full(count, length) if length else random.choice(wmt_lengths()[0], count)
    text = random.integers(words.nspecial, len(words), (count, lengths.max()))
    text[:, 0] = words.bos()
    text[np.arange(lengths.max()) >= lengths[:, None]] = words.pad()
    return {
        "id": torch.arange(count),
        "nsentences": count,
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": torch.from_numpy(text), "src_lengths": torch.from_numpy(lengths)},
        "target": torch.from_numpy(random.integers(2, size=count)),
    }


def about(batch: Dict[str, Any], pad: int) -> Dict[str, Any]:
    """The size of a batch: sentences, tokens of both sides with ``</s>``, and the share of padding in its tensors.

    The target tokens of a masked language model are those that it predicts. Those of a classification are its
    classes, one for each sentence.
    """
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    read = [value for name, value in batch["net_input"].items() if name.endswith("_tokens")]
    classes = target.dim() == 1
    counts = {"source tokens": int(source.ne(pad).sum())}
    counts["target tokens"] = len(target) if classes else int(target.ne(pad).sum())
    padding = sum(int(tokens.eq(pad).sum()) for tokens in read) / sum(tokens.numel() for tokens in read)
    return {"sentences": batch["target"].size(0), **counts, "padding": f"{padding:.1%}"}
