"""Whole models with one encoding, for the tests of the contract: texts, logits, and decoding step by step."""

import torch

from fairseq_rope import RoFormerLanguageModel, RoFormerModel

from ..helpers import BOS, sentences


def output(model, source, target):
    """The logits of a model of any kind: of translations, of a masked text, or behind each token of a text."""
    if isinstance(model, RoFormerModel):
        return model(source, None, target)[0]
    return model(target if isinstance(model, RoFormerLanguageModel) else source)[0]


def logits(model, source, target):
    with torch.no_grad():
        return output(model, source, target)


def decode_step_by_step(model, source, target, reorder=None):
    """Logits ``(B, T, V)`` of incremental decoding; ``reorder`` = (step, new order of the hypotheses)."""
    state, outputs, encoder = {}, [], getattr(model, "encoder", None)
    with torch.no_grad():
        encoder_out = encoder and encoder(source, None)
        for t in range(target.size(1)):
            if reorder and reorder[0] == t:
                model.decoder.reorder_incremental_state_scripting(state, reorder[1])
                encoder_out = encoder and encoder.reorder_encoder_out(encoder_out, reorder[1])
                target = target[reorder[1]]
                outputs = [step[reorder[1]] for step in outputs]
            outputs.append(model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)[0])
    return torch.cat(outputs, dim=1), target


def texts(count, length, seed=1):
    """Token sequences between ``<s>``, the special symbol of language models, and ``</s>``: ``(count, length)``."""
    tokens = sentences(count, length, seed)
    tokens[:, 0] = BOS
    return tokens
