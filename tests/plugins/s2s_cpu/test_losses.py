"""Losses and their gradients in C against autograd in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from s2s.backend import operators
from s2s.nn import LabelSmoothedConfig
from s2s.nn.chunked_loss import Positions
from s2s.nn.loss import LabelSmoothed
from s2s_cpu.library import native_library
from s2s_cpu.losses import consistency_, label_smoothing_

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)


def drawn(n_symbols: int, dtype: torch.dtype, scale: float = 3.0) -> tuple[Tensor, Positions]:
    """Seven positions, of which two do not count."""
    draw = torch.Generator().manual_seed(n_symbols)
    logits = (torch.randn(7, n_symbols, generator=draw) * scale).to(dtype)
    target = torch.randint(n_symbols, (7,), generator=draw)
    return logits, Positions(torch.empty(7, 0), target, torch.arange(7) % 4 > 0)


def in_float64(loss: LabelSmoothed, logits: Tensor, at: Positions) -> tuple[Tensor, Tensor]:
    """The sums of loss and nll [2], and the gradient of the first."""
    logits = logits.double().requires_grad_()
    log_probs, weights = logits.log_softmax(-1), loss.weights(logits.size(-1))
    nll = -log_probs.gather(-1, at.target[:, None]).squeeze(-1)
    losses = weights.on_target * nll - weights.on_each * log_probs.sum(-1) - weights.constant
    losses[at.counts].sum().backward()
    assert logits.grad is not None
    return torch.stack([losses[at.counts].sum(), nll[at.counts].sum()]).detach(), logits.grad


@pytest.mark.parametrize("definition", ["uniform", "others", "t2t"])
@pytest.mark.parametrize("n_symbols", [2, 15, 16, 17, 1003])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float, 1e-6), (torch.bfloat16, 4e-3)], ids=["fp32", "bf16"])
def test_they_are_those_of_the_definition(definition: str, n_symbols: int, dtype: torch.dtype, error: float) -> None:
    """The gradient is rounded to the logits' type, the sums are of fp32."""
    loss = LabelSmoothed(LabelSmoothedConfig(definition=definition))  # type: ignore[arg-type]
    logits, at = drawn(n_symbols, dtype)
    sums, gradient = in_float64(loss, logits, at)
    found, found_gradient = loss.sums_and_gradient(logits, at)
    assert found_gradient.data_ptr() == logits.data_ptr()
    torch.testing.assert_close(torch.stack(found).double(), sums, rtol=2e-6, atol=1e-5)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=error, atol=1e-7)
    assert not found_gradient[~at.counts].any()


def test_logits_may_be_far_apart() -> None:
    loss = LabelSmoothed(LabelSmoothedConfig(eps=0.1))
    logits, at = drawn(50, torch.float, scale=1000.0)
    sums, gradient = in_float64(loss, logits, at)
    found, found_gradient = loss.sums_and_gradient(logits, at)
    torch.testing.assert_close(torch.stack(found).double(), sums, rtol=1e-6, atol=1e-3)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_symbols", [3, 40, 97])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_logit_in_16_bits_may_have_any_sign(n_symbols: int, sign: int) -> None:
    """Their bits are compared as integers; with a wrong maximum exponentials would be 0 here."""
    loss = LabelSmoothed(LabelSmoothedConfig())
    logits, at = drawn(n_symbols, torch.bfloat16, scale=1000.0)
    logits = sign * logits.abs()
    logits[1, : n_symbols // 2] = -0.0
    sums, gradient = in_float64(loss, logits, at)
    found, found_gradient = loss.sums_and_gradient(logits, at)
    torch.testing.assert_close(torch.stack(found).double(), sums, rtol=1e-6, atol=1e-3)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=4e-3, atol=1e-6)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 33])
def test_what_is_not_finite_shows_in_the_loss(poison: float, place: int) -> None:
    """The train step skips the update because of it."""
    logits, at = drawn(34, torch.bfloat16)
    logits[1, place] = poison
    sums, _ = LabelSmoothed(LabelSmoothedConfig()).sums_and_gradient(logits, at)
    assert not sums.loss.isfinite()


@pytest.mark.usefixtures("three_threads")
def test_threads_change_no_bit() -> None:
    logits, at = drawn(300, torch.bfloat16)
    alone = logits.clone()
    rows = [
        label_smoothing_(alone[i : i + 1], at.target[i : i + 1], at.counts[i : i + 1], 0.9, 0.1 / 300) for i in range(7)
    ]
    sums = label_smoothing_(logits, at.target, at.counts, 0.9, 0.1 / 300)
    assert torch.equal(logits, alone)
    assert all(torch.equal(own, torch.cat(parts)) for own, parts in zip(sums, zip(*rows, strict=True), strict=True))


@pytest.mark.parametrize(
    "function", [label_smoothing_, operators.label_smoothing_.reference], ids=["native", "reference"]
)
@pytest.mark.parametrize(("exact", "rounded"), [(257, 256), (259, 260), (258.5, 258)], ids=["down", "up", "nearest"])
def test_a_gradient_between_two_numbers_of_bf16_goes_to_the_nearest_and_a_tie_to_the_even(
    function: Callable[..., Any], exact: float, rounded: float
) -> None:
    """Two equal logits: half of on_target for the other token, and its opposite for the target; bf16 has 8 digits."""
    logits, half = torch.zeros(1, 2, dtype=torch.bfloat16), exact / 1024
    target, counts = torch.tensor([0]), torch.tensor([True])
    *_, gradient = function(logits, target, counts, 2 * half, 0.5 - half)
    assert gradient.tolist() == [[-rounded / 1024, rounded / 1024]]


WEIGHTS = operators.ConsistencyWeights(1.0, 0.5, 2.0, 3.0)


def pairs(n_symbols: int, dtype: torch.dtype, scale: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of seven positions in two passes that are near each other, targets, and which of them count."""
    logits, at = drawn(n_symbols, dtype, scale)
    logits = torch.stack([logits, logits + torch.roll(logits, 1, 0) / 4], 1).contiguous()
    return logits, at.target, at.counts


def consistency_in_float64(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> tuple[Tensor, ...]:
    """Loss [n], nll [n, 2], kl [n, 2] by their definitions, and the gradient of the loss [n, 2, V]."""
    logits = logits.double().requires_grad_()
    probs = logits.softmax(-1)
    p, q = probs.unbind(1)
    nll = -probs.log().gather(-1, target[:, None, None].expand(-1, 2, 1))[..., 0]
    ce = on_target * nll - on_each * probs.log().sum(-1)
    kl = torch.stack([(p * (p / q).log()).sum(-1), (q * (q / p).log()).sum(-1)], 1)
    loss = (torch.cat([ce, kl], 1) * torch.tensor(WEIGHTS, dtype=torch.double)).sum(-1) * counts
    loss.sum().backward()
    assert logits.grad is not None
    return loss.detach(), (nll * counts[:, None]).detach(), (kl * counts[:, None]).detach(), logits.grad


@pytest.mark.parametrize("function", [consistency_, operators.consistency_.reference], ids=["native", "reference"])
@pytest.mark.parametrize("n_symbols", [2, 15, 16, 17, 1003])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float, 1e-6), (torch.bfloat16, 4e-3)], ids=["fp32", "bf16"])
def test_consistency_is_that_of_the_definition(
    function: Callable[..., Any], n_symbols: int, dtype: torch.dtype, error: float
) -> None:
    logits, target, counts = pairs(n_symbols, dtype)
    *sums, gradient = consistency_in_float64(logits, target, counts, 0.8, 0.2 / n_symbols)
    *found, found_gradient = function(logits, target, counts, 0.8, 0.2 / n_symbols, WEIGHTS)
    for own, expected in zip(found, sums, strict=True):
        torch.testing.assert_close(own.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=error, atol=2e-6)
    assert not found_gradient[~counts].any()


def test_distributions_may_have_nothing_in_common() -> None:
    """Probabilities that are 0 in fp32 have logarithms all the same."""
    logits = torch.zeros(1, 2, 40)
    logits[0, 0, 3] = logits[0, 1, 7] = 200.0
    loss, _, kl, gradient = consistency_(logits, torch.tensor([3]), torch.tensor([True]), 1.0, 0.0, WEIGHTS)
    assert kl.tolist() == [[200.0, 200.0]]
    assert loss.item() == pytest.approx(0.5 * 200 + 2 * 200 + 3 * 200)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("function", [consistency_, operators.consistency_.reference], ids=["native", "reference"])
def test_what_does_not_count_may_be_anything(function: Callable[..., Any]) -> None:
    logits, target, counts = pairs(20, torch.float)
    logits[~counts] = torch.nan
    for found in function(logits, target, counts, 0.9, 0.1 / 20, WEIGHTS):
        assert found.isfinite().all()
        assert not found[~counts].any()


def test_weights_may_be_whole_numbers_and_arguments_have_names() -> None:
    logits, target, counts = pairs(20, torch.float)
    whole = operators.ConsistencyWeights(1, 1, 2, 2)
    expected = operators.consistency_.reference(logits, target, counts, 0.9, 0.1 / 20, whole).loss
    named = {"target": target, "counts": counts, "on_target": 0.9, "on_each": 0.1 / 20, "weights": whole}
    torch.testing.assert_close(operators.consistency_(logits, **named).loss, expected)


@pytest.mark.parametrize("place", [(0, 0), (0, 33), (1, 5)])
def test_what_is_not_finite_shows_in_the_sum_of_two_passes(place: tuple[int, int]) -> None:
    logits, target, counts = pairs(34, torch.bfloat16)
    logits[1, place[0], place[1]] = torch.nan
    assert consistency_(logits, target, counts, 0.9, 0.1 / 34, WEIGHTS).loss.isfinite().tolist() == [
        True, False, *[True] * 5,
    ]  # fmt: skip


@pytest.mark.usefixtures("three_threads")
def test_threads_change_no_bit_of_two_passes() -> None:
    logits, target, counts = pairs(300_000, torch.bfloat16)
    alone = logits.clone()
    rows = [
        consistency_(alone[i : i + 1], target[i : i + 1], counts[i : i + 1], 0.9, 0.1 / 300_000, WEIGHTS)
        for i in range(7)
    ]
    sums = consistency_(logits, target, counts, 0.9, 0.1 / 300_000, WEIGHTS)
    assert torch.equal(logits, alone)
    assert all(torch.equal(own, torch.cat(parts)) for own, parts in zip(sums, zip(*rows, strict=True), strict=True))
