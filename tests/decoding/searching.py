"""What the tests of the search share: a model with varied hypotheses, padded sources, fairseq's search beside ours."""

import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope.decoding.generator import FastSequenceGenerator

from ..helpers import EOS, PAD, VOCABULARY, build, randomised, sentences, task

EXACT = dict(rtol=0, atol=0)
CLOSE = dict(rtol=1e-5, atol=1e-5)
"""fp32 logits of the same numbers in products of another shape."""


SEARCH = dict(beam_size=3, max_len_b=12)


def lively(arch="roformer_tiny", seed=0, **options):
    """A model whose hypotheses differ in words and lengths: large weights, and an end that is likely now and then."""
    model = build(arch, seed, **{"share_all_embeddings": False, **options})
    torch.manual_seed(seed + 1)
    for name, part in model.named_modules():
        if name.endswith(".position"):
            randomised(part)
    with torch.no_grad():
        for embedding in (model.encoder.embed_tokens, model.decoder.embed_tokens):
            embedding.weight.normal_(std=0.5)
        model.decoder.output_projection.weight.normal_(std=0.4)
        model.decoder.output_projection.weight[EOS] *= 2.5
        for layer in model.decoder.layers:
            if layer.encoder_attn is not None:
                randomised(layer.encoder_attn)
    return model


def batch(lengths=(9, 3, 6, 1, 9), seed=1, device="cpu", types=VOCABULARY):
    """Sentences of these lengths, padded on the left."""
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for i, length in enumerate(lengths):
        tokens[i, -length:] = (sentences(1, length, seed=seed + i) - 4) % (types - 4) + 4
        tokens[i, -1] = EOS
    tokens = tokens.to(device)
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}


def generator(model, **options):
    return FastSequenceGenerator([model], task().target_dictionary, **{**SEARCH, **options})


def both(models, source, types=VOCABULARY, generate=None, strategy=None, packs=True, **options):
    """The hypotheses of the fast search and of fairseq's."""
    models = models if isinstance(models, list) else [models]
    words = task(types).target_dictionary
    found = []
    for cls in (FastSequenceGenerator, SequenceGenerator):
        torch.manual_seed(7)
        chosen = {**options, "search_strategy": strategy(words)} if strategy else options
        generator = cls(models, words, **chosen)
        generator.packs_weights = packs
        found.append(generator.generate(models, source, **(generate or {})))
    return found


def assert_same(actual, expected, tolerance=CLOSE):
    assert len(actual) == len(expected)
    for mine, stock in zip(actual, expected):
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in stock]
        for a, b in zip(mine, stock):
            assert a.keys() == b.keys()
            for name in a:
                assert (a[name].dtype, a[name].shape, a[name].device) == (b[name].dtype, b[name].shape, b[name].device)
                torch.testing.assert_close(a[name], b[name], **tolerance, msg=name)
