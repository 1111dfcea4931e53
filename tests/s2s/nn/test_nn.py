"""Attention and dropout against slower truths."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from s2s.nn.attention import KERNELS, CrossAttention, Heads, PaddedLayout, SelfAttention
from s2s.nn.dropout import Dropout, apply_dropout


def attention_by_loops(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Equation 1 for each query in float64: q [B, h, T, d_k], k and v [B, h, S, ·], seen [B, T, S]."""
    q, k, v = q.double(), k.double(), v.double()
    out = torch.zeros(*q.shape[:3], v.size(3), dtype=torch.float64)
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        keys = [s for s in range(k.size(2)) if seen[b, t, s]]
        scores = torch.tensor([sum(q[b, h, t] * k[b, h, s]).item() / math.sqrt(q.size(3)) for s in keys])
        weights = scores.double().exp() / scores.double().exp().sum()
        out[b, h, t] = sum(w * v[b, h, s] for w, s in zip(weights, keys, strict=True))
    return out


@pytest.mark.parametrize("hides", ["nothing", "padding", "what follows"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_equation_1(kernel: str, hides: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 6), torch.randn(3, 2, 4, 6), torch.randn(3, 2, 4, 3)
    pad = torch.arange(4) >= torch.tensor([[4], [2], [1]])
    layouts = {
        "nothing": (PaddedLayout(KERNELS[kernel]), torch.ones(3, 4, 4)),
        "padding": (PaddedLayout.from_padding(pad, torch.float32, KERNELS[kernel]), (~pad)[:, None].expand(3, 4, 4)),
        "what follows": (PaddedLayout(KERNELS[kernel], causal=True), torch.ones(3, 4, 4).tril()),
    }
    layout, seen = layouts[hides]
    expected = attention_by_loops(q, k, v, seen)
    assert torch.allclose(layout.attend(q, k, v, 0.0).double(), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_with_nothing_to_see_gives_numbers_and_gradients(kernel: str, dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    pad = torch.tensor([[True, True, True], [False, True, True]])
    out = PaddedLayout.from_padding(pad, dtype, KERNELS[kernel]).attend(q, k, v, 0.0)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_hidden_changes_no_bit(kernel: str) -> None:
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    pad = torch.tensor([[False, False, False, True, True]])
    layout = PaddedLayout.from_padding(pad, torch.float32, KERNELS[kernel])
    before = layout.attend(q, k, v, 0.0)
    k[:, :, 3:], v[:, :, 3:] = 50.0, -7.0
    assert torch.equal(layout.attend(q, k, v, 0.0), before)


def test_attention_takes_packed_shapes_as_well_as_padded_ones() -> None:
    """Only the layout looks at what stands before [T, D]."""
    attention = SelfAttention(8, Heads(2, 3, 5), dropout=0.0)
    x = torch.randn(4, 6, 8)
    layout = PaddedLayout(KERNELS["sdpa"])
    together = attention(x, layout)
    assert together.shape == x.shape
    for row, expected in zip(x, together, strict=True):
        assert torch.allclose(attention(row, layout), expected, atol=1e-6)


def test_queries_may_be_hypotheses() -> None:
    """Cross-attention does not care what its queries are: one at a time gives the same."""
    cross, memory = CrossAttention(8, Heads(2, 4, 4), dropout=0.0), torch.randn(2, 5, 8)
    keys_values, layout = cross.keys_values(memory), PaddedLayout(KERNELS["sdpa"])
    beams = torch.randn(2, 3, 8)
    together = cross(beams, keys_values, layout)
    for i in range(3):
        assert torch.allclose(cross(beams[:, i : i + 1], keys_values, layout), together[:, i : i + 1], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_and_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(200, 500, dtype=dtype)
    dropped = apply_dropout(x, 0.3)
    assert (dropped == 0).double().mean().item() == pytest.approx(0.3, abs=0.006)  # four standard deviations
    assert dropped[dropped != 0].double().unique().tolist() == pytest.approx([1 / 0.7], rel=1e-5)


def test_values_are_dropped_independently() -> None:
    """Four of them come from one random number: no two may be dropped together more often than others."""
    torch.manual_seed(1)
    kept = (apply_dropout(torch.ones(2**18, 4), 0.25) > 0).double()
    assert torch.allclose(kept.mean(0), torch.tensor(0.75).double(), atol=5e-3)
    assert torch.allclose(kept.T.cov(), 0.1875 * torch.eye(4).double(), atol=3e-3)


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    x = torch.ones(50, requires_grad=True)
    dropped = apply_dropout(x, 0.5)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, dropped.detach())


def test_dropout_follows_the_seed_and_rests_in_evaluation() -> None:
    layer, x = Dropout(0.5), torch.ones(50)
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x
