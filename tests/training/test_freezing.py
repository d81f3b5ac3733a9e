"""--only-train: some parameters are trained, the others stay as they are."""

import pytest

from ..helpers import KINDS, build_with


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_named_is_trained(kind):
    model = build_with("t5", kind, only_train="self_attn|position")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert (
        trained == {name for name, _ in model.named_parameters() if "self_attn" in name or "position" in name} != set()
    )
