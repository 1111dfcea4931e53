"""The reference of attention of padded sentences, in types whose products it takes itself."""

from __future__ import annotations

import pytest
import torch

from s2s.backend import BLOCKED, padded_attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_of_padded_sentences_is_softmax_of_scaled_scores_over_what_is_not_padding(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in range(3))
    bias = torch.zeros(2, 1, 1, 5, dtype=dtype)
    bias[1, ..., 3:] = BLOCKED
    found = padded_attention.reference(q, k, v, bias)
    for b, length in enumerate((5, 3)):
        keys, values = k[b, :, :length].double(), v[b, :, :length].double()
        expected = (q[b].double() @ keys.mT / 8**0.5).softmax(-1) @ values
        torch.testing.assert_close(found[b].double(), expected, rtol=2e-2, atol=2e-2)
