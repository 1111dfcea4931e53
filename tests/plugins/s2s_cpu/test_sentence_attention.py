"""Attention of whole sentences in C, up to thousands of tokens, against float64.

Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from s2s.backend.operators.attention import BLOCKED
from s2s_cpu.attention import padded_attention
from s2s_cpu.library import native_library

pytestmark = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)


def of_sentences(n_queries: int, n_keys: int, d_k: int, d_v: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q [2, 3, T, d_k], k [2, 3, S, d_k], v [2, 3, S, d_v], as a linear map gives them: heads lie within a token."""
    draw = torch.Generator().manual_seed(n_keys)
    shapes = (n_queries, d_k), (n_keys, d_k), (n_keys, d_v)
    q, k, v = (torch.randn(2, n, 3, d, generator=draw).transpose(1, 2) for n, d in shapes)
    return q * scale, k, v


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """In float64."""
    scores = q.double() @ k.double().transpose(2, 3) * q.size(3) ** -0.5
    return (scores.softmax(3) @ v.double()).float()


@pytest.mark.parametrize("n_keys", [1, 15, 16, 17, 33, 300, 2051])
@pytest.mark.parametrize("widths", [(16, 16), (64, 64), (5, 3), (40, 100)], ids=str)
def test_long_sentences_are_attended_to_as_in_float64(n_keys: int, widths: tuple[int, int]) -> None:
    q, k, v = of_sentences(min(n_keys, 31), n_keys, *widths)
    torch.testing.assert_close(padded_attention(q, k, v), exact(q, k, v), rtol=1e-5, atol=2e-6)


def test_far_apart_scores_have_the_weights_of_float64() -> None:
    """Values of 1 at one key after the other show the weights themselves; those below exp(-87) are 0."""
    q, k, _ = of_sentences(7, 64, 16, 16, scale=20)
    v = torch.eye(64).expand(2, 3, -1, -1)
    found, expected = padded_attention(q, k, v), exact(q, k, v)
    torch.testing.assert_close(found, expected, rtol=3e-5, atol=1e-36)
    assert (expected < 1e-30).any()


@pytest.mark.parametrize("n_blocked", [1, 16, 45])
def test_keys_that_are_blocked_change_no_bit(n_blocked: int) -> None:
    q, k, v = of_sentences(100, 100 + n_blocked, 16, 64)
    bias = torch.zeros(2, 1, 1, 100 + n_blocked)
    bias[..., 100:] = BLOCKED
    alone = padded_attention(q, k[:, :, :100], v[:, :, :100])
    assert torch.equal(padded_attention(q, k, v, bias), alone)
    assert torch.equal(padded_attention(q[1:], k[1:], v[1:], bias[1:]), alone[1:])
