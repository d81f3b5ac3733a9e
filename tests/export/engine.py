"""CTranslate2's engine beside fairseq: what it has, models in which all parameters are felt, log-probabilities."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope.export import export_model

from ..helpers import EOS, PAD, build, decoder_input, sentences

ctranslate2 = pytest.importorskip("ctranslate2")

BOTH = ("none", "sinusoidal", "learned", "rope", "shaw", "t5")
"""Encodings that the engine has on both sides."""

TOLERANCE = 3e-5
"""Of log-probabilities, in fp32: sums in another order."""


def felt(encoder="rope", decoder="rope", noise=0.2, **options):
    """A small model in which every parameter, those of the positions included, is random and felt."""
    model = build("transformer_none_tiny", encoder_position=encoder, decoder_position=decoder, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    return model


def exported(model, folder, **options):
    export_model(model, folder / "out", **options)
    return ctranslate2.Translator(str(folder / "out"), intra_threads=1)


def words(model, tokens):
    return [model.encoder.dictionary[token] for token in tokens.tolist() if token not in (PAD, EOS)]


def pad_left(rows):
    longest = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0), value=PAD) for row in rows])


def some(*lengths):
    return [sentences(1, length, seed=length)[0] for length in lengths]


@torch.no_grad()
def log_probabilities(model, sources, targets):
    """fairseq's, of each token of ``targets`` and ``</s>``, in one batch."""
    padded = torch.nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=PAD)
    previous = [decoder_input(target[None])[0] for target in targets]
    previous = torch.nn.utils.rnn.pad_sequence(previous, batch_first=True, padding_value=PAD)
    out = model.decoder(previous, encoder_out=model.encoder(pad_left(sources)))
    found = model.get_normalized_probs(out, log_probs=True).gather(-1, padded[..., None])[..., 0]
    return [row[: len(target)] for row, target in zip(found, targets)]


def largest_difference(model, translator, sources, targets):
    scored = translator.score_batch([words(model, row) for row in sources], [words(model, row) for row in targets])
    expected = log_probabilities(model, sources, targets)
    return max((torch.tensor(s.log_probs) - e).abs().max().item() for s, e in zip(scored, expected))


def searched(model, sources, **options):
    """The best hypothesis of fairseq's search for each source."""
    padded = pad_left(sources)
    batch = {"net_input": {"src_tokens": padded, "src_lengths": padded.ne(PAD).sum(1)}}
    search = SequenceGenerator([model], model.decoder.dictionary, **options)
    return [hypotheses[0] for hypotheses in search.generate([model], batch)]
