"""The model as fairseq users see it: its architectures, and torch.export and torch.compile of it."""

import argparse
import re
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_rope.architectures import FAMILIES, match_architectures
from fairseq_rope.info import VOCABULARY, count_parameters
from fairseq_rope.kinds import SIZES
from fairseq_rope.positions import POSITIONS

from .helpers import FP32, KINDS, build, build_felt, decoder_input, pad, sentences
from .positions.whole_models import decode_step_by_step, logits


def test_two_architectures_of_one_size_differ_in_the_position_term_alone_and_store_no_derived_table():
    for kind in KINDS:
        names = match_architectures(["*_tiny" if kind == "translation" else f"*_{kind}_tiny"])
        models = {name: build(name) for name in names}
        assert len(models) == len(FAMILIES)
        common = models[next(name for name in names if name.startswith("transformer_none_"))].state_dict().keys()
        for model in models.values():
            stored = set(model.state_dict())
            assert {name for name in stored if ".position." not in name} == set(common)
            parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
            assert {name.split(".")[-1] for name in stored - parameters} == {"version"}


@torch.no_grad()
def test_marians_options_change_the_logits_and_decode_step_by_step():
    source, target = sentences(2, 7), decoder_input(sentences(2, 6, seed=2))
    plain = build("transformer_sinusoidal_tiny")
    for changed in ({"output_bias": True}, {"start_with_bos": True}, {"swish": True}, {"sinusoidal_formula": "paper"}):
        model = build("transformer_sinusoidal_tiny", **changed)
        model.load_state_dict(plain.state_dict(), strict=False)
        if "output_bias" in changed:
            torch.nn.init.normal_(model.decoder.output_projection.bias)
        steps, _ = decode_step_by_step(model, source, target)
        torch.testing.assert_close(steps, logits(model, source, target), **FP32)
        assert not torch.allclose(steps, logits(plain, source, target), atol=1e-4), changed
        assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight


def test_the_manual_states_what_each_encoding_adds():
    page = Path(__file__).parent.parent / "docs/encodings.md"
    rows = [line.split("|")[1:-1] for line in page.read_text(encoding="utf-8").splitlines()]
    table = {cells[0].strip(" `"): [c.strip() for c in cells[1:]] for cells in rows if len(cells) == 6}
    plain = count_parameters("transformer_none_base", VOCABULARY)
    for family, name in FAMILIES.items():
        added, invariant = table[name][:2]
        assert added == f"{count_parameters(f'{family}_base', VOCABULARY) - plain:,}", name
        assert invariant == ("yes" if POSITIONS[name].shift_invariant else "no"), name
    for size in SIZES:
        ARCH_CONFIG_REGISTRY[f"roformer_{size}"](args := argparse.Namespace())
        for side in ("encoder", "decoder"):
            names = (f"{side}_{name}" for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers"))
            assert [*(f"{vars(args)[name]:,}" for name in names), str(args.dropout)] == table[size], size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "position,dtype",
    [*((name, torch.float) for name in ("tupe_r", "deberta", "fire", "linear")), ("shaw", torch.bfloat16)],
)
def test_the_manuals_export_of_encoder_and_decoder_serves_other_batches(position, dtype):
    page = (Path(__file__).parent.parent / "docs/export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import torch\n.*?)```", page, re.DOTALL)
    small = dict(encoder_layers=1, decoder_layers=1, max_target_positions=80)
    model = build("roformer_tiny", decoder_position=position, **small).to(dtype)
    names = dict(model=model, source=pad(sentences(3, 8), left=2), prefix=decoder_input(sentences(3, 5, seed=2)))
    with torch.no_grad():
        exec(code, names)
        for length in (2, 7, 70):  # longer than a chunk of linear attention
            source, prefix = pad(sentences(2, 11), left=3), decoder_input(sentences(2, length, seed=2))
            logits, _ = names["decoder"].module()(prefix, names["encoder"].module()(source))
            near = FP32 if dtype is torch.float else {"rtol": 0.05, "atol": 0.05}
            torch.testing.assert_close(logits, model(source, None, prefix)[0], **near)


@pytest.mark.slow
@pytest.mark.long
def test_other_lengths_and_batches_are_compiled_once():
    def batch(count, length):
        return sentences(count, length + 2), None, decoder_input(sentences(count, length, seed=2))

    torch._dynamo.reset()
    model = build_felt("tupe_r", encoder_layers=1, decoder_layers=1)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        for shape in ((3, 7), (4, 9), (5, 6)):
            compiled(*batch(*shape))
        with torch._dynamo.config.patch(error_on_recompile=True):
            for shape in ((6, 8), (2, 12), (7, 5)):
                torch.testing.assert_close(compiled(*batch(*shape))[0], model(*batch(*shape))[0], rtol=1e-4, atol=1e-4)
