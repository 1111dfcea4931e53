"""All steps of an LSTM layer in C, and their gradient, against torch's LSTM and the plain loop in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from s2s.backend.operators import lstm
from s2s.plugin import load_plugins
from s2s_cpu.library import native_library
from s2s_cpu.lstm import accepts_lstm

pytestmark = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)

SHAPES = pytest.mark.parametrize(
    ("steps", "sentences", "width"), [(1, 1, 16), (7, 3, 48), (40, 19, 160)], ids=["one", "few", "many"]
)


@pytest.fixture(autouse=True)
def plugins() -> None:
    load_plugins()


def drawn(steps: int, sentences: int, width: int, large: float = 2.0) -> list[Tensor]:
    """Parts, weight, first output and memory."""
    torch.manual_seed(steps)
    parts = torch.randn(steps, sentences, 4 * width) * large
    state = [torch.randn(sentences, width) for _ in range(2)]
    return [x.requires_grad_() for x in (parts, torch.randn(4 * width, width) / width**0.5, *state)]


def outputs_and_gradients(function: object, leaves: list[Tensor], *, of: str = "both") -> list[Tensor]:
    """Of a sum in which every output has another factor; `of`: outputs, memories or both."""
    results = function(*leaves)  # type: ignore[operator]
    chosen = {"both": results, "outputs": results[:1], "memories": results[1:]}[of]
    total = sum((x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)).sum() for x in chosen)
    return [*(x.detach() for x in results), *torch.autograd.grad(total, leaves)]


@SHAPES
@pytest.mark.parametrize("of", ["both", "outputs", "memories"])
def test_outputs_and_gradients_are_those_of_float64(steps: int, sentences: int, width: int, of: str) -> None:
    leaves = drawn(steps, sentences, width)
    assert accepts_lstm(*leaves)
    found = outputs_and_gradients(lstm, leaves, of=of)
    exact = [x.detach().double().requires_grad_() for x in leaves]
    for one, other in zip(found, outputs_and_gradients(lstm.reference, exact, of=of), strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-6 * max(1.0, scale))


@SHAPES
def test_in_bf16_they_are_as_near_as_the_loop_in_bf16(steps: int, sentences: int, width: int) -> None:
    leaves = drawn(steps, sentences, width)
    narrow = [leaves[0].detach().bfloat16().requires_grad_(), *leaves[1:]]
    assert accepts_lstm(*narrow)
    found = outputs_and_gradients(lstm, narrow)
    with torch.autocast("cpu", torch.bfloat16):
        loop = outputs_and_gradients(lstm.reference, narrow)
    exact = outputs_and_gradients(lstm.reference, [x.detach().double().requires_grad_() for x in narrow])
    for one, other, truth in zip(found, loop, exact, strict=True):
        assert one.dtype == other.dtype
        error, allowed = (one.double() - truth).norm(), (other.double() - truth).norm()
        assert error <= 1.5 * allowed + 1e-3 * truth.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_tensors_may_lie_in_any_order(dtype: torch.dtype) -> None:
    parts, weight, h, c = (x.detach() for x in drawn(7, 3, 48))
    parts = parts.to(dtype)
    given = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (parts, weight, h, c)]
    assert not any(x.is_contiguous() for x in given)
    leaves = [x.requires_grad_() for x in given]
    found = torch.autograd.grad(lstm(*leaves)[0].sum(), leaves)  # of which the gradient is expanded
    again = [x.detach().contiguous().requires_grad_() for x in given]
    torch.testing.assert_close(found, torch.autograd.grad(lstm(*again)[0].clone().sum(), again))
    torch.testing.assert_close(lstm(*given), lstm(*again), rtol=0, atol=0)


@pytest.mark.parametrize("which", range(4))
def test_what_needs_no_gradient_gets_none(which: int) -> None:
    leaves = drawn(4, 2, 16)
    everything = torch.autograd.grad(lstm(*leaves)[0].sum(), leaves)
    alone = [x if i == which else x.detach() for i, x in enumerate(leaves)]
    (found,) = torch.autograd.grad(lstm(*alone)[0].sum(), leaves[which])
    torch.testing.assert_close(found, everything[which])


def test_outputs_may_be_changed_in_place_and_differentiated_twice() -> None:
    leaves = drawn(4, 2, 16)
    doubled = lstm(*leaves)[0].mul(2).sum()
    once, twice = (torch.autograd.grad(doubled, leaves, retain_graph=True) for _ in range(2))
    torch.testing.assert_close(once, twice, rtol=0, atol=0)
    h, c = lstm(*leaves)
    c.mul_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):  # and not a wrong gradient
        h.sum().backward()


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_threads_change_no_bit(dtype: torch.dtype) -> None:
    parts, *state = drawn(40, 17, 160)
    leaves = [parts.detach().to(dtype).requires_grad_(), *state]
    outputs, memories, d_parts, _, *d_state = outputs_and_gradients(lstm, leaves)
    torch.set_num_threads(1)
    expected_outputs, expected_memories, expected_d_parts, _, *expected_d_state = outputs_and_gradients(lstm, leaves)
    assert torch.equal(outputs, expected_outputs)
    assert torch.equal(memories, expected_memories)
    assert torch.equal(d_parts, expected_d_parts)
    assert all(map(torch.equal, d_state, expected_d_state))


def test_without_a_gradient_it_is_the_same() -> None:
    leaves = drawn(5, 3, 32)
    with torch.no_grad():
        found = lstm(*leaves)
    assert not found[0].requires_grad
    torch.testing.assert_close(found, tuple(x.detach() for x in lstm(*leaves)), rtol=0, atol=0)


def test_gates_that_are_shut_or_open_give_no_nan() -> None:
    """The functions of a gate are 0 or 1 where its part is huge, and its gradient 0."""
    leaves = drawn(6, 2, 16, large=1e4)
    for x in outputs_and_gradients(lstm, leaves):
        assert x.isfinite().all()
    h, c = lstm(*drawn(6, 2, 16, large=torch.inf))
    assert h.isfinite().all()
    assert c.isfinite().all()


@pytest.mark.parametrize("change", ["width", "double", "empty", "one state for all"])
def test_what_it_does_not_know_is_left_to_torch(change: str) -> None:
    parts, weight, h, c = drawn(3, 2, 12 if change == "width" else 16)
    if change == "double":
        parts, weight, h, c = (x.double() for x in (parts, weight, h, c))
    if change == "one state for all":
        h, c = h[:1], c[:1]
    if change == "empty":
        parts, h, c = parts[:, :0], h[:0], c[:0]
    assert not accepts_lstm(parts, weight, h, c)
    torch.testing.assert_close(lstm(parts, weight, h, c), lstm.reference(parts, weight, h, c))
