"""The masks that attention merges: no query sees padding alone, and the weights of padding alone are no NaN."""

import torch

from fairseq_rope.attention.masks import merge_masks

H = 4
PADDING = torch.tensor([[True, True, False], [False, True, True]])
HIDDEN = torch.full((3, 3), float("-inf")).triu(1)


def test_no_query_sees_padding_alone():
    """Not even one in the padding on the left of a decoder: it sees itself."""
    mask = merge_masks(None, HIDDEN, PADDING, torch.zeros(2, H, 3, 8))
    seen = mask[:, 0].eq(0).int().tolist()
    assert seen == [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0]] * 3]


def test_no_query_sees_padding_alone_where_the_bias_hides_keys():
    """Heads that see only earlier keys, or only later ones: a padded query sees itself, on both sides of a sentence."""
    bias = torch.stack([HIDDEN, HIDDEN.t()])[None].repeat(1, H // 2, 1, 1)
    mask = merge_masks(bias, None, PADDING, torch.zeros(2, H, 3, 8), hides_keys=True)
    assert (mask > torch.finfo(torch.float32).min).any(-1).all()
    assert torch.equal(mask[0, :, 2].eq(0), torch.tensor([[False, False, True]]).expand(H, 3)), "a word sees no padding"


def test_the_mask_of_a_padded_key_is_finite():
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        mask = merge_masks(None, None, torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, H, 3, 8, dtype=dtype))
        assert mask.dtype == dtype and mask.isfinite().all()
