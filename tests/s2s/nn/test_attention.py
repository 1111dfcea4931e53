"""Which kernel computes attention: all give the same numbers, so only the choice itself can be tested."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from s2s.backend.operators import attention as operators
from s2s.nn import CrossAttention, Heads, KeysValues, SelfAttention, attention
from s2s.nn.attention import SHORT, PaddedLayout, PaddedLayoutWithWeights, auto, math_attention

SETTINGS = list(
    product(
        ("cpu", "meta"), (torch.float32, torch.bfloat16), (SHORT, SHORT + 1), (False, True), (0.0, 0.1), (False, True)
    )
)


def rule(device: str, dtype: torch.dtype, n_keys: int, causal: bool, dropout: float, grad: bool) -> str:
    """Without gradients whole sentences go to the operator; a CPU has others for long sentences, and for short ones in
    training, and is slow with 16 bits."""
    if not grad and not causal and dropout == 0:
        return "padded_attention"
    if device == "cpu" and (grad or n_keys > SHORT):
        return "short_attention" if n_keys <= SHORT else "tiled_attention"
    return "math_attention" if device == "cpu" and dtype == torch.bfloat16 else "sdpa"


def test_the_kernel_is_the_fastest_that_does_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("padded_attention", "short_attention", "tiled_attention", "math_attention", "sdpa"):
        monkeypatch.setattr(attention, name, lambda *_, kernel=name: kernel)
    for device, dtype, n_keys, causal, dropout, grad in SETTINGS:
        q = torch.zeros(1, 1, 2, 4, dtype=dtype, device=device)
        k: Any = torch.zeros(1, 1, n_keys, 4, dtype=dtype, device=device)
        with torch.set_grad_enabled(grad):
            assert auto(q, k, k, None, causal, dropout) == rule(device, dtype, n_keys, causal, dropout, grad)


class Adapter(nn.Module):
    """As a plugin wraps a linear map."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)


@pytest.mark.parametrize("name", ["q", "kv", "out", "qkv"])
def test_a_linear_map_may_be_replaced(name: str) -> None:
    heads, layout, x = Heads(2, 8, 8), PaddedLayout(auto, None, causal=False), torch.randn(2, 5, 16)
    module = SelfAttention(16, heads, 0.0) if name == "qkv" else CrossAttention(16, heads, 0.0)
    inputs = (x,) if name == "qkv" else (x, torch.randn(2, 7, 16))
    with torch.autocast("cpu", torch.bfloat16):
        expected = module(*inputs, layout)
        setattr(module, name, Adapter(getattr(module, name)))
        torch.testing.assert_close(module(*inputs, layout), expected)


def test_keys_and_values_of_a_subclass_are_those_of_its_method() -> None:
    class Negated(CrossAttention):
        def keys_values(self, memory: Tensor) -> KeysValues:
            return super().keys_values(-memory)

    module, layout = Negated(16, Heads(2, 8, 8), 0.0), PaddedLayout(auto, None, causal=False)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(module(x, memory, layout), module(x, module.keys_values(memory), layout))


@pytest.mark.parametrize(("dtype", "device", "own"), [
    (torch.bfloat16, "cpu", True), (torch.float16, "cpu", True),
    (torch.float32, "cpu", False), (torch.bfloat16, "meta", False),
])  # fmt: skip
def test_plain_products_are_taken_for_16_bits_on_a_cpu(
    dtype: torch.dtype, device: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(operators, "attention_weights", lambda q, k, bias, causal: calls.append(causal) or q @ k.mT)
    q = torch.zeros(2, 3, 4, dtype=dtype, device=device)
    assert operators.padded_attention.reference(q, q, q).shape == q.shape
    assert calls == [False] * own


@pytest.mark.parametrize("causal", [False, True])
def test_weights_that_are_kept_are_those_of_the_output(causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))
    layout = PaddedLayoutWithWeights(math_attention, causal=causal)
    out = layout.attend(q, k, v, 0.0)
    assert layout.weights is not None
    torch.testing.assert_close(layout.weights.sum(-1), torch.ones(2, 2, 3))
    assert bool((layout.weights.triu(1) == 0).all()) == causal
    torch.testing.assert_close(out, layout.weights @ v)
    torch.testing.assert_close(out, PaddedLayout(math_attention, causal=causal).attend(q, k, v, 0.0))


def test_dropout_is_of_the_weights() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 50, 4), torch.randn(1, 1, 60, 4)
    weights = math_attention(q, k, torch.eye(60)[None, None], None, False, 0.5)[0, 0]
    assert float((weights == 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert float(weights.sum(-1).mean()) == pytest.approx(1.0, abs=0.1)
