"""Functions that encodings of relative positions share: distances, all of them in one row, and T5's buckets."""

import math
from typing import Tuple

import torch
from torch import Tensor, nn

from ..interception import is_matrix
from ..products import matmul
from .base import TokenPositions, looked_up


def check_distance(flag: str, distance: int) -> None:
    """Raises ValueError if the value of an option is not a distance in tokens."""
    if distance < 1:
        raise ValueError(f"{flag} must be at least 1, not {distance}")


def distances(query: TokenPositions, key: TokenPositions) -> Tensor:
    """``j - i``, negative for keys before the query: ``(1, T, S)``; ``(B or 1, T, S)`` of sampled positions.

    Padding stands only before or behind a sentence. The distance of two tokens is therefore that of their places, which
    are the same in all sentences; the queries have the last ones.
    """
    if key.below:
        return key.positions[:, None, :] - query.positions[:, :, None]
    return _between_places(query, key) * key.gap


def _between_places(query: TokenPositions, key: TokenPositions) -> Tensor:
    """How many places each key stands behind each query: ``(1, T, S)``."""
    places = torch.arange(key.positions.size(1), device=key.positions.device)
    return (places - places[-query.positions.size(1) :, None])[None]


def distance_rows(query: TokenPositions, key: TokenPositions) -> Tuple[Tensor, Tensor]:
    """All values of ``j - i`` in ascending order ``(R,)``, and each pair's place among them ``(1, T, S)``.

    It is for shift-invariant encodings, whose positions are one row: of evenly spaced numbers, ``R = T + S - 1``, or
    sampled below K, ``R = 2 K - 1``.
    """
    if key.below:
        rows = torch.arange(1 - key.below, key.below, device=key.positions.device)
        return rows, distances(query, key) + key.below - 1
    between = _between_places(query, key)
    lowest = between[0, -1, 0]
    rows = lowest + torch.arange(sum(between.shape[1:]) - 1, device=between.device)
    return rows * key.gap, between - lowest


def products_with_rows(q: Tensor, rows: Tensor, projection: nn.Linear) -> Tensor:
    """``q_i . (W r)`` for each query and row: ``(B, H, T, R)``.

    In a step of decoding, the sentences are the rows of one product per head. Where few queries meet many rows, by
    associativity it projects the queries, ``(q W) r``, instead of the rows.

    Args:
        q: ``(B, H, T, D)``
        rows: ``(R, C)``
        projection: ``W``, from C to H x D channels, and perhaps its bias.
    """
    heads = (q.size(1), -1)
    sentences, (count, channels) = q.size(0), rows.shape
    if q.size(2) > 1 or not is_matrix(projection):
        return matmul(q, projection(rows).unflatten(-1, heads).permute(1, 2, 0))  # (R, C) -> (H, D, R)
    q = q[:, :, 0].transpose(0, 1)  # (H, B, D)
    if sentences * (channels + heads[0] * count) >= count * channels:
        products = q @ projection(rows).unflatten(-1, heads).permute(1, 2, 0)
    else:
        products = (q @ projection.weight.unflatten(0, heads)) @ rows.t()  # (H, B, C), (H, B, R)
        if projection.bias is not None:
            products = products + q @ projection.bias.unflatten(0, heads)[..., None]
    return products.transpose(0, 1)[:, :, None]


def of_pairs(products: Tensor, row: Tensor) -> Tensor:
    """Each pair's number among those of all distances: ``(B, H, T, R)`` -> ``(B, H, T, S)``.

    Of evenly spaced positions it is a view: a pair's row lies one further to the left for the next query
    (Transformer-XL, appendix B).

    Args:
        products: of each query with the rows of :func:`distance_rows`.
        row: the place of each pair among them, ``(1, T, S)``.
    """
    (queries, keys), rows = row.shape[-2:], products.size(-1)
    if queries == 1 and keys == rows:
        return products
    if rows != queries + keys - 1 or torch.compiler.is_compiling():  # sampled positions, or unknown lengths
        return products.gather(-1, row.expand(*products.shape[:2], -1, -1))
    products = products.contiguous()
    strides = (*products.stride()[:2], rows - 1, 1)
    return products.as_strided((*products.shape[:3], keys), strides, products.storage_offset() + queries - 1)


def t5_buckets(distance: Tensor, bidirectional: bool, buckets: int, max_distance: int) -> Tensor:
    """The bucket of each distance ``j - i`` (Raffel et al. 2020, section 2.1), in ``[0, buckets)``.

    If ``bidirectional``, half of the buckets are for later keys; else later keys share bucket 0 with the query itself.
    Half of the buckets of a direction hold one distance each. The others grow logarithmically up to ``max_distance``
    tokens, and the last one also holds all distances beyond.
    """
    offset = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        offset = (distance > 0) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    # as in Mesh TensorFlow: fp32 and truncation
    growth = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact) * (buckets - exact)
    logarithmic = (exact + growth.long()).clamp(max=buckets - 1)
    return offset + torch.where(distance < exact, distance, logarithmic)


def bias_of_rows(row: Tensor, table: Tensor) -> Tensor:
    """The number of each head for each pair, ``(B or 1, H, T, S)``: what ``table`` ``(R, H)`` has in the pair's row.

    On a GPU, PyTorch's attention kernels take only a bias whose neighbouring keys are neighbours in memory.

    Args:
        row: ``(B or 1, T, S)``, int64.
        table: one row for each distance, bucket or other kind of pair.
    """
    bias = looked_up(table, row).permute(0, 3, 1, 2)
    return bias if bias.is_cpu else bias.contiguous()


def check_buckets(prefix: str, buckets: int, max_distance: int) -> None:
    """Raises ValueError if T5's buckets cannot be made."""
    if buckets < 4 or buckets % 4:
        raise ValueError(f"--{prefix}-buckets must be a multiple of 4 and at least 4, not {buckets}")
    if max_distance <= buckets // 2:
        raise ValueError(
            f"--{prefix}-max-distance must be above {buckets // 2}, half of --{prefix}-buckets, not {max_distance}"
        )
