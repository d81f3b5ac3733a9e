"""Supervised alignments (Garg et al. 2019, section 4.2): the flags of fairseq's ``transformer_align``."""

from argparse import ArgumentParser
from typing import Any, NamedTuple, Optional

FLAGS = ("alignment_layer", "alignment_heads", "full_context_alignment")


class Alignment(NamedTuple):
    """Which weights of the attention to the encoder a training supervises."""

    layer: int  # 0-based, counted from the embeddings
    heads: int  # the first ones of the layer; their mean is supervised
    full_context: bool  # in a second pass, which sees the whole target


def add_alignment_args(parser: ArgumentParser) -> None:
    """Adds ``--alignment-layer``, ``--alignment-heads`` and ``--full-context-alignment``."""
    parser.add_argument(
        "--alignment-layer",
        type=int,
        help="decoder layer whose attention to the encoder learns the alignments, the lowest being 0 "
        "(default: the last but one)",
    )
    parser.add_argument(
        "--alignment-heads", type=int, help="how many heads of that layer learn them, as their mean (default: 1)"
    )
    parser.add_argument(
        "--full-context-alignment",
        action="store_true",
        help="the alignments are learned in a second pass, which sees the whole target",
    )


def requested_alignment(cfg: Any, task: Any) -> Optional[Alignment]:
    """The alignment to train, if a flag or the task (``--load-alignments``) asks for one.

    Raises:
        ValueError: the decoder has no such layer or heads, or may drop the layer.
    """
    layer, count, full_context = (getattr(cfg, name, None) for name in FLAGS)
    options = getattr(task, "cfg", None) or getattr(task, "args", None)  # as fairseq's older tasks have them
    from_task = getattr(options, "load_alignments", False)
    if layer is None and count is None and not full_context and not from_task:
        return None
    layers, heads = cfg.decoder_layers, cfg.decoder_attention_heads
    alignment = Alignment(
        layer=max(layers - 2, 0) if layer is None else layer,
        heads=1 if count is None else count,
        full_context=bool(full_context),
    )
    if not 0 <= alignment.layer < layers:
        raise ValueError(f"--alignment-layer must be between 0 and {layers - 1}, not {alignment.layer}")
    if not 1 <= alignment.heads <= heads:
        raise ValueError(f"--alignment-heads must be between 1 and {heads}, not {alignment.heads}")
    if cfg.no_cross_attention or cfg.decoder_layerdrop:
        flag = "--no-cross-attention" if cfg.no_cross_attention else "--decoder-layerdrop"
        raise ValueError(f"{flag} cannot be combined with alignments, which a layer's attention to the encoder learns")
    return alignment
