"""The references of attention: of padded sentences, in types whose products it takes itself, and over trees."""

from __future__ import annotations

import itertools

import pytest
import torch

from s2s.backend.operators import TreePaths, padded_attention, tiled_attention, tree_attention
from s2s.backend.operators.attention import BLOCKED, math_attention
from s2s.nn.attention import sdpa


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


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_of_long_sentences_is_equation_1(dtype: torch.dtype, causal: bool, dropout: float) -> None:
    q, k, v = (torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    torch.manual_seed(1)
    expected = math_attention(q, k, v, None, causal, dropout)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = tiled_attention.reference(*(x.to(dtype) for x in (q, k, v)), None, causal, dropout)
    limits = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found.float(), expected, **limits)


def test_attention_over_a_tree_is_that_over_each_path_alone() -> None:
    """Two sentences of two hypotheses, whose paths share their first nodes; keys are narrower than values."""
    h, d_k, d_v, draw = 3, 2, 5, torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, h, 2, d, generator=draw) for d in (d_k, d_k, d_v))
    nodes = torch.randn(2, 7, h * (d_k + d_v), generator=draw)
    path, length, n_nodes = torch.tensor([[[0, 1, 3], [0, 2, 4]], [[0, 1, 9], [0, 2, 9]]]), [3, 2], [5, 3]
    paths = TreePaths(path, torch.tensor(length), torch.tensor(n_nodes), 3, 5)
    found = tree_attention.reference(q, k, v, nodes, paths, sdpa, 0.0)
    for b, hypothesis in itertools.product(range(2), range(2)):
        newest = nodes[b, n_nodes[b] - 2 + hypothesis]
        assert torch.equal(newest, torch.cat([k[b, :, hypothesis].flatten(), v[b, :, hypothesis].flatten()]))
        keys, values = nodes[b, path[b, hypothesis, : length[b]]].split([h * d_k, h * d_v], dim=1)
        keys, values = keys.unflatten(1, (h, d_k)).transpose(0, 1), values.unflatten(1, (h, d_v)).transpose(0, 1)
        weights = (keys @ q[b, :, hypothesis, :, None] / d_k**0.5).softmax(1)  # [h, length, 1]
        torch.testing.assert_close(found[b, :, hypothesis], (weights * values).sum(1))
