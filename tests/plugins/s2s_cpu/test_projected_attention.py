"""Attention with the linear maps around it as one function, against float64 and against its parts one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from s2s.backend.operators import projected_attention
from s2s.backend.operators.attention import BLOCKED, math_attention
from s2s.nn import CrossAttention, Heads, PaddedLayout, PaddedLayoutWithWeights, SelfAttention
from s2s.nn.attention import SHORT, auto
from s2s_cpu.bf16_linear import has_bf16_linear

if TYPE_CHECKING:
    from collections.abc import Callable

needs_bf16 = pytest.mark.skipif(not has_bf16_linear(), reason="no AVX512-BF16, or no functions in C")

WIDTH = 64
HEADS = [Heads(4, 16, 16), Heads(2, 24, 32), Heads(4, 8, 40)]
"""Of which keys and values are as wide as the model's rows, narrower and wider"""
MODES = pytest.mark.parametrize("mode", ["causal", "padded", "to memory"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])


class Case:
    """Random sentences, and attention to themselves or to others."""

    def __init__(
        self, mode: str, heads: Heads = HEADS[0], dtype: torch.dtype = torch.float32, **options: float
    ) -> None:
        torch.manual_seed(3)
        self.mode, n_keys = mode, 21 if mode == "to memory" else 19
        dropout, bias = options.get("dropout", 0.0), bool(options.get("bias", True))
        kind = CrossAttention if mode == "to memory" else SelfAttention
        self.module: nn.Module = kind(WIDTH, heads, dropout, bias=bias)
        for p in self.module.parameters():
            p.detach().copy_(p.detach().bfloat16().float())  # torch rounds biases, the functions in C do not
        self.x = (torch.randn(15, 19, WIDTH) / 2).to(dtype).requires_grad_()
        self.memory = (torch.randn(15, n_keys, WIDTH) / 2).to(dtype).requires_grad_()
        pad = torch.arange(n_keys) >= torch.arange(n_keys - 14, n_keys + 1)[:, None]  # [B, S]
        self.bias = None if mode == "causal" else (pad * BLOCKED)[:, None, None]

    def layout(self, kernel: Callable[..., Tensor] = auto) -> PaddedLayout:
        return PaddedLayout(kernel, self.bias, causal=self.mode == "causal")

    def inputs(self) -> list[Tensor]:
        return [self.x, self.memory] if self.mode == "to memory" else [self.x]

    def run(self, kernel: Callable[..., Tensor] = auto) -> list[Tensor]:
        """The output, and all gradients."""
        torch.manual_seed(5)
        out = self.module(*self.inputs(), self.layout(kernel))
        leaves = [*self.inputs(), *(p for p in self.module.parameters() if p.requires_grad)]
        return [out.detach(), *torch.autograd.grad(out.double().sin().sum(), leaves)]

    def in_bf16(self, kernel: Callable[..., Tensor] = auto) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            return self.run(kernel)

    def exact(self) -> list[Tensor]:
        """In float64, of the values that bf16 can hold."""
        values = (self.x, self.memory)
        self.x, self.memory = (t.detach().bfloat16().double().requires_grad_() for t in values)
        self.module.double()
        found = self.run(math_attention)
        self.module.float()
        self.x, self.memory = values
        return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call had a function."""
    ((accepts, function),) = projected_attention.implementations
    seen: list[bool] = []

    def counted(*arguments: object) -> bool:
        seen.append(accepts(*arguments))
        return seen[-1]

    monkeypatch.setattr(projected_attention, "implementations", ((counted, function),))
    return seen


def in_parts(case: Case, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(projected_attention, "implementations", ())
        return case.in_bf16()


@needs_bf16
@pytest.mark.parametrize("n_sentences", [2, 16])
def test_a_memory_of_other_sentences_is_left_to_torch(n_sentences: int, calls: list[bool]) -> None:
    """Which refuses it, where the function would read beyond it."""
    case = Case("to memory")
    case.memory, case.bias = torch.randn(n_sentences, 21, WIDTH).requires_grad_(), None
    with pytest.raises(RuntimeError, match="size"):
        case.in_bf16()
    assert calls == [False]


@needs_bf16
@MODES
@DTYPES
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_outputs_and_gradients_are_near_those_of_float64(
    mode: str, dtype: torch.dtype, heads: Heads, calls: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As near as those of torch's own operations in bf16."""
    case = Case(mode, heads, dtype)
    truth, found = case.exact(), case.in_bf16()
    assert calls == [True]
    monkeypatch.setattr("s2s.backend.Operator.use_implementations", False)
    for one, other, right in zip(found, case.in_bf16(math_attention), truth, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        error, allowed = (one.double() - right).norm(), (other.double() - right).norm()
        assert error <= 1.15 * allowed + 1e-4


@needs_bf16
@MODES
@DTYPES
@pytest.mark.parametrize("options", [{}, {"dropout": 0.3}, {"bias": False}], ids=str)
def test_it_has_the_bits_of_its_parts(
    mode: str, dtype: torch.dtype, options: dict[str, float], calls: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(mode, HEADS[1], dtype, **options)
    found = case.in_bf16()
    assert calls == [True]
    assert all(map(torch.equal, found, in_parts(case, monkeypatch)))


@needs_bf16
@pytest.mark.usefixtures("three_threads")
@MODES
def test_threads_change_no_bit(mode: str) -> None:
    case = Case(mode, dropout=0.3)
    found = case.in_bf16()
    torch.set_num_threads(1)
    assert all(map(torch.equal, found, case.in_bf16()))


@needs_bf16
@MODES
@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_inputs_get_no_gradient_and_change_no_other(mode: str, frozen: int) -> None:
    case, n_frozen = Case(mode), 0
    expected = case.in_bf16()[1 + len(case.inputs()) :]
    for x in case.inputs()[frozen:]:
        x.requires_grad_(False)
        n_frozen += 1
    torch.manual_seed(5)
    with torch.autocast("cpu", torch.bfloat16):
        out = case.module(*case.inputs(), case.layout())
    out.double().sin().sum().backward()
    assert [x.grad is None for x in case.inputs()].count(True) == n_frozen
    assert all(map(torch.equal, [p.grad for p in case.module.parameters()], expected))  # type: ignore[arg-type]


@needs_bf16
def test_keys_and_values_may_be_computed_before(calls: list[bool]) -> None:
    """Once, for several uses: the same bits."""
    case = Case("to memory")
    with torch.autocast("cpu", torch.bfloat16):
        whole = case.module(case.x, case.memory, case.layout())
        kept = case.module.keys_values(case.memory)  # type: ignore[operator]
        assert torch.equal(whole, case.module(case.x, kept, case.layout()))
    assert calls == [True]


@needs_bf16
@MODES
def test_other_passes_are_left_to_its_parts(mode: str, calls: list[bool]) -> None:
    """Those in fp32, without gradients, with a frozen weight, with weights that are kept, and with another kernel."""
    case = Case(mode)
    case.run()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        case.module(*case.inputs(), case.layout())
    next(case.module.parameters()).requires_grad_(False)
    case.in_bf16()
    assert calls == [False, False]
    next(case.module.parameters()).requires_grad_(True)
    layout = case.layout()
    kept = PaddedLayoutWithWeights(layout.kernel, layout.bias, layout.causal)
    with torch.autocast("cpu", torch.bfloat16):
        case.module(*case.inputs(), kept)
    case.in_bf16(math_attention)
    assert kept.weights is not None
    assert calls == [False, False], "not asked for these"


@needs_bf16
def test_long_sentences_are_left_to_their_parts(calls: list[bool]) -> None:
    x, layout = torch.randn(2, SHORT + 1, WIDTH), PaddedLayout(auto, causal=True)
    with torch.autocast("cpu", torch.bfloat16):
        SelfAttention(WIDTH, HEADS[0], 0.0)(x, layout)
        SelfAttention(WIDTH, HEADS[0], 0.0)(x[:, 1:], layout)
    assert calls == [True]


@needs_bf16
@MODES
def test_a_hook_makes_the_layer_call_its_modules(mode: str, calls: list[bool]) -> None:
    """Of any of the linear maps; and so does a weight that is computed."""
    case = Case(mode)
    expected = case.in_bf16()
    n_calls = len(calls)
    for module in case.module.children():
        seen: list[object] = []
        hook = module.register_forward_hook(lambda *given, seen=seen: seen.append(given))  # type: ignore[misc]
        assert all(map(torch.equal, case.in_bf16(), expected))
        hook.remove()
        assert len(seen) == 1
    nn.utils.parametrize.register_parametrization(case.module.out, "weight", nn.Identity())  # type: ignore[arg-type]
    assert torch.equal(case.in_bf16()[0], expected[0])
    assert len(calls) == n_calls
