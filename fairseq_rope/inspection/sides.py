"""The sides of a model: encoder and decoder of a translation model, the one of a language model."""

from typing import Any, Dict, Optional

from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from torch import Tensor, nn

from ..positions import PositionEncoding, name_of


def stacks_of(model: Any) -> Dict[str, nn.Module]:
    """The stack of layers of each side, ``encoder`` before ``decoder``."""
    if isinstance(model, FairseqLanguageModel):
        return {"decoder": model.decoder}
    if isinstance(model, FairseqEncoderDecoderModel):
        return {"encoder": model.encoder, "decoder": model.decoder}
    return {"encoder": model.encoder.sentence_encoder}


def stack_of(model: Any, side: str) -> Any:
    """The stack of layers of ``side``.

    Raises:
        ValueError: the model has no such side.
    """
    stacks = stacks_of(model)
    if side not in stacks:
        raise ValueError(f"this language model has no {side}: choose --side {next(iter(stacks))}")
    return stacks[side]


def encoding_of(model: Any, side: str) -> Optional[PositionEncoding]:
    """The encoding of ``side``; None if the model is fairseq's own, or has no such side."""
    encoding = getattr(stacks_of(model).get(side), "position", None)
    return encoding if isinstance(encoding, PositionEncoding) else None


def encoding_name(model: Any, side: str) -> str:
    """The name in the registry of the encoding of ``side``, which has one; ValueError as in :func:`stack_of`."""
    return name_of(stack_of(model, side).position)


def place_of_symbol(model: Any, side: str, length: int) -> int:
    """Where a text of ``length`` tokens has the special symbol of the encoding; -1 if it has none.

    ``</s>`` is at the end of a source, the symbol at the beginning of a target and of a masked model's text. The
    running text of a causal model has none, unless it was trained with ``--add-bos-token``.
    """
    if isinstance(model, FairseqLanguageModel):
        return 0 if getattr(model, "begins_with_symbol", False) else -1
    stack = stack_of(model, side)
    at_end = side == "encoder" and stack.position.config.special_idx == model.encoder.dictionary.eos()
    return length - 1 if at_end else 0


def attend(model: Any, side: str, source: Tensor, target: Tensor) -> None:
    """Lets the layers of ``side`` see sentences ``(B, T)``: ``source`` in the encoder, ``target`` in the decoder."""
    if isinstance(model, FairseqLanguageModel):
        model.decoder(target, features_only=True)
    elif not isinstance(model, FairseqEncoderDecoderModel):
        model.encoder(source, features_only=True)
    else:
        out = model.encoder(source, source.new_full((len(source),), source.size(1)))
        if side == "decoder":
            model.decoder(target, encoder_out=out, features_only=True)
