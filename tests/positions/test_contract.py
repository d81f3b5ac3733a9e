"""What every registered encoding must keep, in a whole model. The registry decides what is tested."""

import io

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope import RoFormerLanguageModel, RoFormerModel
from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.positions import POSITIONS

from ..helpers import (
    BOS,
    ENCODINGS,
    EOS,
    FP32,
    KINDS,
    LANGUAGE,
    PAD,
    build_felt,
    build_with,
    decoder_input,
    pad,
    sentences,
    task,
)

pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)


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


@pytest.mark.parametrize("kind", ["translation", "lm"])
def test_the_full_pass_equals_step_by_step(encoding, kind):
    model = build_felt(encoding, kind)
    source, target = pad(sentences(3, 6), left=2), decoder_input(sentences(3, 9, seed=2))
    steps, _ = decode_step_by_step(model, source, target)
    torch.testing.assert_close(steps, logits(model, source, target), **FP32)


@pytest.mark.parametrize("kind", ["translation", "lm"])
def test_the_full_pass_equals_step_by_step_after_beam_reordering(encoding, kind):
    model = build_felt(encoding, kind)
    source, target = sentences(2, 6).repeat_interleave(2, dim=0), decoder_input(sentences(4, 9, seed=2))
    order = torch.tensor([1, 1, 3, 2])  # within each beam of two: one hypothesis doubled, two exchanged
    steps, reordered = decode_step_by_step(model, source, target, reorder=(5, order))
    torch.testing.assert_close(steps, logits(model, source[order], reordered), **FP32)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sentence_alone_equals_itself_in_a_padded_batch(encoding, side):
    model = build_felt(encoding)
    short, long = sentences(1, 5), sentences(1, 11, seed=4)
    target, long_target = decoder_input(sentences(1, 4, seed=5)), decoder_input(sentences(1, 9, seed=6))
    alone = logits(model, short, target)
    batch_source = torch.cat([pad(short, **{side: 6}), long])
    for target_side in ("right", "left"):
        batch_target = torch.cat([pad(target, **{target_side: 5}), long_target])
        together = logits(model, batch_source, batch_target)
        real = slice(0, 4) if target_side == "right" else slice(5, 9)
        torch.testing.assert_close(together[:1, real], alone, **FP32)
        assert together.isfinite().all()


def texts(count, length, seed=1):
    """Token sequences between ``<s>``, the special symbol of language models, and ``</s>``: ``(count, length)``."""
    tokens = sentences(count, length, seed)
    tokens[:, 0] = BOS
    return tokens


@pytest.mark.parametrize("kind", LANGUAGE)
def test_a_text_alone_equals_itself_in_a_padded_batch(encoding, kind):
    model, short, long = build_felt(encoding, kind), texts(1, 5), texts(1, 11, seed=4)
    alone = logits(model, short, short)
    for side, real in (("left", slice(6, 11)), ("right", slice(0, 5))):
        batch = torch.cat([pad(short, **{side: 6}), long])
        together = logits(model, batch, batch)
        torch.testing.assert_close(together[:1, real], alone, **FP32)
        assert together.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_swapping_two_tokens_changes_the_output_after_save_load_and_eval(encoding, kind):
    saved = io.BytesIO()
    torch.save(build_felt(encoding, kind, seed=1).state_dict(), saved)
    saved.seek(0)
    model = build_felt(encoding, kind, seed=2)
    model.load_state_dict(torch.load(saved, weights_only=True))
    model.eval()
    source, target = texts(1, 8), decoder_input(sentences(1, 5, seed=2))
    swapped = source[:, [0, 3, 2, 1, *range(4, 8)]]
    assert not torch.equal(source, swapped)
    if kind != "translation":
        target = source
    after = logits(model, swapped, target if kind == "translation" else swapped)
    change = (logits(model, source, target) - after)[:, -1].abs().max()  # behind the last token, which stays
    if encoding == "none" and kind != "lm":  # the control: its encoder sees a bag of words
        assert change < 1e-5
    else:  # without an encoding, what a causal model sees of earlier tokens still depends on their order
        assert change > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_shifts_with_the_sentence_only_if_it_says_so(encoding, kind):
    model, tokens = build_felt(encoding, kind), texts(1, 6)
    stack = {"translation": "encoder", "mlm": "encoder.sentence_encoder", "lm": "decoder"}[kind]
    stack = model.get_submodule(stack)
    places = stack.position.steps(tokens)
    with torch.no_grad():

        def run(offset):
            moved = places._replace(positions=places.positions + offset)
            context = stack.position.prepare(moved, moved)
            if kind == "lm":
                x = stack.embed(tokens, moved.positions).transpose(0, 1)
            else:
                x = stack.forward_embedding(tokens, positions=moved.positions)[0].transpose(0, 1)
            for layer in stack.layers:
                x = layer(x, causal=True, **context)[0] if kind == "lm" else layer(x, None, **context)
            return x

        change = (run(0) - run(17)).abs().max()
    assert (change < 1e-4) == POSITIONS[encoding].shift_invariant


@pytest.mark.parametrize("dtype,tolerance", [(torch.bfloat16, 0.1), (torch.float16, 0.015)])
def test_half_precision_is_close_to_fp32(encoding, dtype, tolerance):
    """Tolerance: about ten roundings of the dtype (2^-8, 2^-11) relative to logits of size one."""
    model = build_felt(encoding)
    source, target = sentences(2, 30), decoder_input(sentences(2, 30, seed=2))
    expected = logits(model, source, target)
    actual = logits(build_felt(encoding).to(dtype), source, target)
    assert (actual.float() - expected).abs().max() < tolerance * max(1.0, expected.abs().max().item())


def test_autocast_is_close_to_fp32_and_trains(encoding):
    """As ``--amp`` does; tolerance as for bfloat16 above."""
    model = build_felt(encoding, dropout=0.0).train()
    source, target = pad(sentences(2, 20), left=1), decoder_input(sentences(2, 20, seed=2))
    expected = logits(model, source, target)
    with torch.autocast("cpu", torch.bfloat16):
        actual = model(source, None, target)[0]
    actual.float().logsumexp(-1).sum().backward()
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, expected.abs().max().item())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("checkpoint_activations", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient(encoding, kind, checkpoint_activations):
    model = build_felt(encoding, kind, checkpoint_activations=checkpoint_activations, dropout=0.0).train()
    source, target = texts(2, 64), decoder_input(sentences(2, 64, seed=2))
    output(model, source, target).logsumexp(-1).sum().backward()
    without = [
        n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.abs().sum() > 0)
    ]
    # adding a constant to all keys does not change a softmax: their bias has no gradient but rounding
    assert [name for name in without if "k_proj.bias" not in name] == []


@pytest.mark.parametrize("kind", KINDS)
def test_activation_checkpointing_changes_no_gradient(encoding, kind):
    gradients = []
    for checkpoint_activations in (False, True):
        options = dict(checkpoint_activations=checkpoint_activations, dropout=0.0, attention_dropout=0.0)
        model = build_felt(encoding, kind, **options).train()
        output(model, pad(texts(2, 9), left=1), decoder_input(sentences(2, 7, seed=2))).pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    largest = max(1, *(gradient.abs().max() for gradient in gradients[0].values()))
    for name, gradient in gradients[0].items():  # sums of the layers' shares in another order
        assert (gradients[1][name] - gradient).abs().max() <= 1e-5 * largest, name


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_dict_holds_parameters_and_no_derived_table(encoding, kind):
    model = build_felt(encoding, kind)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert {name.split(".")[-1] for name in set(model.state_dict()) - parameters} == {"version"}


def test_an_averaged_checkpoint_loads_and_computes_with_the_mean(encoding, tmp_path):
    models, config = [build_felt(encoding, seed=seed) for seed in (1, 2)], {"cfg": {}}
    for i, model in enumerate(models):
        torch.save({"model": model.state_dict(), **config}, tmp_path / f"{i}.pt")
    average = build_felt(encoding, seed=3)
    average.load_state_dict(average_checkpoints([tmp_path / "0.pt", tmp_path / "1.pt"])["model"])
    for name, parameter in average.named_parameters():
        mean = sum(dict(model.named_parameters())[name] for model in models) / 2
        torch.testing.assert_close(parameter, mean, msg=name)
    assert logits(average, sentences(2, 7), decoder_input(sentences(2, 5)))[0].isfinite().all()


def test_beam_search_is_not_disturbed_by_padding_on_the_left(encoding):
    model = build_felt(encoding)
    generator = SequenceGenerator([model], task().target_dictionary, beam_size=4, max_len_b=12)
    short, long = sentences(1, 4), sentences(1, 9, seed=3)

    def best(source):
        net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(dim=1)}
        hypotheses = generator.generate([model], {"net_input": net_input})
        return [h[0]["tokens"].tolist() for h in hypotheses]

    assert best(torch.cat([pad(short, left=5), long])) == best(short) + best(long)


@pytest.mark.parametrize("other", ENCODINGS)
def test_it_combines_with_every_other_encoding_in_the_decoder(encoding, other):
    model = build_felt(encoding, decoder_position=other)
    source, target = pad(sentences(2, 5), left=1), decoder_input(sentences(2, 6, seed=2))
    steps, _ = decode_step_by_step(model, source, target)
    torch.testing.assert_close(steps, logits(model, source, target), **FP32)


def test_no_attention_weights_unless_asked_for(encoding):
    model = build_felt(encoding)
    source, target = sentences(2, 6), decoder_input(sentences(2, 5, seed=2))
    with torch.no_grad():
        assert model(source, None, target)[1]["attn"] == [None]
        asked = model(source, None, target, alignment_layer=1)[1]["attn"][0]
    assert asked.shape == (2, 5, 6)
    torch.testing.assert_close(asked.sum(-1), torch.ones(2, 5))


def test_a_copy_task_is_learned(encoding):
    """Two sentences with the same words in another order: only an encoding can tell them apart in the encoder."""
    torch.manual_seed(0)
    model = build_with(encoding, dropout=0.0).train()
    source = torch.tensor([[4, 5, 6, 7, EOS], [7, 6, 5, 4, EOS]])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(180):
        output = model(source, None, decoder_input(source))[0]
        loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), source.flatten())
        if loss < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # a bag of words leaves the first token to chance: log(2) / 5 = 0.139 at best
    assert (loss.item() < 0.05) == (encoding != "none")


def test_a_model_that_was_built_on_the_meta_device_computes_what_was_loaded(encoding):
    model = build_felt(encoding)
    with torch.device("meta"):
        loaded = build_with(encoding, seed=1)
    loaded.to_empty(device="cpu").load_state_dict(model.state_dict())
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    assert torch.equal(logits(loaded, source, target), logits(model, source, target))


def test_a_quantised_model_decodes(encoding):
    model = build_felt(encoding)
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    expected, actual = (decode_step_by_step(net, source, target)[0] for net in (model, quantised))
    assert (actual - expected).abs().max() < 0.1 * expected.abs().max()  # eight bits, through a few layers
