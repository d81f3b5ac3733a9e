"""The host waits for the device no more often than with fairseq's own model.

On the meta device, whose tensors have no values, every wait is an error; here it is counted and answered.
"""

import functools
import itertools

import pytest
import torch
from torch.overrides import TorchFunctionMode

from fairseq_rope import architectures
from fairseq_rope.decoding.generator import FastSequenceGenerator
from fairseq_rope.output_projection import output_weight
from fairseq_rope.training import linear_loss
from fairseq_rope.training.optimizer import FusedAdam

from .helpers import PAD, SOFTMAX, build, task

FAMILIES = [family for family, name in architectures.FAMILIES.items() if name in SOFTMAX]

ONE_LAYER = dict(encoder_layers=1, decoder_layers=1)
TENSOR = torch.Tensor
ANSWERS = {
    TENSOR.__bool__: lambda x: True,
    TENSOR.item: lambda x: 1,
    TENSOR.__int__: lambda x: 1,
    TENSOR.__float__: lambda x: 1.0,
    TENSOR.tolist: lambda x: [False] * x.numel(),
    torch.equal: lambda *_: False,
}
COPIES = (torch.tensor, torch.as_tensor, torch.from_numpy)


class Waits(TorchFunctionMode):
    """What the host waits for, and what it copies to the device, by name."""

    def __init__(self, device="meta"):
        super().__init__()
        self.device = device
        self.found = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        on_device = any(isinstance(x, TENSOR) and x.device.type == self.device for x in args)
        if function in ANSWERS and on_device:
            self.found.append(function.__name__)
            return ANSWERS[function](*args)
        lists = on_device and function is TENSOR.__getitem__ and _has_list(args[1])
        to_device = str(kwargs.get("device")) == "meta" and function in COPIES
        moved = function in (TENSOR.to, TENSOR.copy_) and not args[0].is_meta and _names_meta(args[1:], kwargs)
        if lists or to_device or moved:
            self.found.append(f"copy by {function.__name__}")
        return function(*args, **kwargs)


def _has_list(index):
    return any(isinstance(part, list) for part in (index if isinstance(index, tuple) else (index,)))


def _names_meta(args, kwargs):
    return any(str(x) == "meta" or (isinstance(x, TENSOR) and x.is_meta) for x in (*args, *kwargs.values()))


def waits_of(model, use):
    """Those of the second time: tables that stay are made in the first."""
    model.to("meta")
    for waits in (Waits(), Waits()):
        with waits:
            use(model)
    return waits.found


def train(model):
    source, target = torch.full((3, 7), 5, device="meta"), torch.full((3, 6), 6, device="meta")
    features = model.train()(source, None, target, features_only=True)[0].flatten(0, 1)
    weight = output_weight(model)
    loss, _ = linear_loss._LinearLoss.apply(features, weight, target.flatten(), 0.1, PAD)  # behind what autocast asks
    loss.backward()


def test_training_waits_no_more_often_than_with_fairseqs_model():
    """Whether there is padding, on each side. Linear attention switches autocast off, which is not on this device."""
    found = [waits_of(build(f"{name}_tiny", **ONE_LAYER), train) for name in ("fairseq_transformer", *FAMILIES)]
    assert found[1:] == [["__bool__"] * 2] * len(FAMILIES) and found[0][:2] == ["__bool__"] * 2


def test_a_masked_model_waits_once_for_the_amount_of_padding():
    """Which is one here; so a quarter of the shorter text is padding, and the layers get two tokens."""
    rows = []

    def encode(length, model):
        stack = model.train().encoder.sentence_encoder
        activation = stack.layers[0].activation_fn
        stack.layers[0].activation_fn = lambda x: rows.append(x.size(0)) or activation(x)
        stack(torch.full((1, length), 5, device="meta"))["encoder_out"][0].sum().backward()

    for family, (length, packed) in itertools.product(FAMILIES, ((3, 2), (9, 9))):
        found = waits_of(build(f"{family}_mlm_tiny", **ONE_LAYER), functools.partial(encode, length))
        assert found == ["__int__"] and rows[-1] == packed, family


def test_a_step_of_decoding_waits_once():
    def translate(model):
        source = torch.full((3, 7), 5, device="meta")
        generator = FastSequenceGenerator([model.eval()], task().target_dictionary, beam_size=4, max_len_b=4)
        with pytest.raises(RuntimeError):  # no translation ends, as every answer is no
            generator.generate([model], {"net_input": {"src_tokens": source, "src_lengths": None}})

    for family in FAMILIES:
        found = waits_of(build(f"{family}_tiny", **ONE_LAYER), translate)
        assert found == ["__bool__"] + ["tolist"] * 5, family


def test_an_update_of_the_fused_optimizer_reads_no_tensor():
    """It has no kernel for the meta device; on a CPU, PyTorch's own steps stay out of sight."""
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = FusedAdam(parameters)
    with Waits("cpu") as waits:
        for _ in range(3):
            torch.stack(parameters).sum().backward()
            optimizer.step()
    assert not waits.found
