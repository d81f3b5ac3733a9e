"""Layers that get no padding: the same function of the tokens, in fewer rows."""

import pytest
import torch

from ..helpers import BOS, DEVICES, ENCODINGS, FIRST, FP32, PAD, build_felt, build_with


def ragged(lengths, device="cpu"):
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.arange(FIRST, FIRST + length)
        tokens[row, 0] = BOS
    return tokens.to(device)


def rows_of(model):
    """Lists the rows of the first layer's feed-forward network from now on."""
    shapes, layer = [], model.encoder.sentence_encoder.layers[0]
    activation = layer.activation_fn

    def listed(x):
        shapes.append(tuple(x.shape[:2]))
        return activation(x)

    layer.activation_fn = listed
    return shapes


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_packed_layers_compute_the_same(encoding, device):
    model = build_felt(encoding, "mlm", encoder_normalize_before=True).to(device)
    encoder = model.encoder.sentence_encoder
    torch.nn.init.normal_(encoder.layer_norm.bias)  # a norm behind the unpacking would be felt at padding
    tokens = ragged([12, 3, 1, 7], device)
    seen, results = rows_of(model), []
    weights = torch.randn(23, encoder.embed_tokens.embedding_dim, generator=torch.Generator().manual_seed(1)).to(device)
    for encoder.packs in (True, False):
        model.zero_grad()
        features = encoder(tokens)["encoder_out"][0].transpose(0, 1)
        (features[tokens.ne(PAD)] * weights).sum().backward()
        results.append((features, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    assert seen == [(23, 1), (12, 4)]
    (packed, gradients), (padded, expected) = results
    torch.testing.assert_close(packed[tokens.ne(PAD)], padded[tokens.ne(PAD)], **FP32)
    assert not packed[tokens.eq(PAD)].any()
    assert gradients.keys() == expected.keys()
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for name in gradients:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-3, atol=1e-4 * largest)


def test_a_batch_is_packed_if_a_quarter_of_it_is_padding():
    model = build_with("rope", "mlm")
    seen = rows_of(model)
    for lengths in ((8, 4), (8, 5), (8, 8)):
        model(ragged(lengths))
    assert seen == [(12, 1), (8, 2), (8, 2)]


def test_who_listens_to_a_layer_sees_whole_batches():
    model, shapes = build_with("rope", "mlm"), []
    model.encoder.sentence_encoder.layers[1].register_forward_hook(lambda _, __, out: shapes.append(out.shape[:2]))
    model(ragged([9, 2]))
    assert shapes == [(9, 2)]


def test_hidden_states_keep_their_padding_and_so_does_translation():
    tokens = ragged([9, 2])
    masked, translation = build_with("rope", "mlm"), build_with("rope")
    states = masked.encoder.extract_features(tokens, return_all_hiddens=True)[1]["inner_states"]
    assert [state.shape[:2] for state in states] == [(9, 2)] * 3
    assert not translation.encoder.packs
