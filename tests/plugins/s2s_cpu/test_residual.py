"""Dropout, residual sums and their norm in C, forward and backward, against the same computation in float64."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from s2s.backend import operators
from s2s.backend.operators import add_dropout, add_dropout_norm, apply_dropout
from s2s.batch import make_batch
from s2s.nn import LabelSmoothed, LabelSmoothedConfig
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_cpu import residual
from s2s_cpu.library import native_library
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)

OPERATORS = (apply_dropout, add_dropout, add_dropout_norm)
DTYPE_BITS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])


@contextmanager
def as_references() -> Iterator[None]:
    """These operators as torch computes them; all others, such as attention, as before."""
    with ExitStack() as stack:
        for operator in OPERATORS:
            stack.enter_context(patch.object(operator, "implementations", ()))
        yield


@pytest.fixture(autouse=True)
def plugins() -> None:
    load_plugins()


def drawn_norm(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    return norm


def gradients(out: Tensor, d_out: Tensor, *leaves: Tensor) -> list[Tensor]:
    """The output, and the gradients of the leaves."""
    return [out.detach(), *torch.autograd.grad(out, leaves, d_out.to(out.dtype))]


def assert_close(found: list[Tensor], expected: list[Tensor], dtype: torch.dtype) -> None:
    """In fp32; the gradient of y is rounded to y's type."""
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        rounded = dtype == torch.bfloat16 and i == 2  # out, dx, dy, …
        assert one.dtype == (dtype if i == 2 else torch.float32)
        torch.testing.assert_close(one.double(), other.double(), rtol=4e-3 if rounded else 2e-5, atol=2e-5)


@DTYPE_BITS
@pytest.mark.parametrize("p", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("width", [16, 48, 128, 1040])
def test_sum_and_norm_and_their_gradients_are_those_of_float64(p: float, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(width)
    x, y, norm = torch.randn(3, 5, width).mul(2).add(1).requires_grad_(), torch.randn(3, 5, width), drawn_norm(width)
    y, d_out = y.to(dtype).requires_grad_(), torch.randn(3, 5, width)
    torch.manual_seed(1)
    assert residual.accepts_sum_and_norm(x, y, p, norm)
    found = gradients(add_dropout_norm(x, y, p, norm), d_out, x, y, norm.weight, norm.bias)
    next_number = torch.rand(())

    torch.manual_seed(1)
    factor = apply_dropout(torch.ones(3, 5, width), p).double()
    assert torch.rand(()) == next_number, "the next random number is the reference's"
    x, y = (t.detach().double().requires_grad_() for t in (x, y))
    out = norm.double()(x + y * factor)
    assert_close(found, gradients(out, d_out, x, y, norm.weight, norm.bias), dtype)


@DTYPE_BITS
@pytest.mark.parametrize("shape", [(1,), (15,), (3, 17), (2, 3, 16), (0, 4)])
def test_a_sum_with_dropout_and_its_gradients_are_those_of_the_reference(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Of any shape; in bf16 the sum is of fp32."""
    torch.manual_seed(0)
    x, d_out = torch.randn(shape, requires_grad=True), torch.randn(shape)
    y = torch.randn(shape).to(dtype).requires_grad_()
    both = []
    for around in (nullcontext(), as_references()):
        torch.manual_seed(1)
        with around:
            both.append(gradients(add_dropout(x, y, 0.3), d_out, x, y))
            both[-1] += gradients(apply_dropout(y, 0.3), d_out, y)
    for one, other in zip(*both, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_what_is_not_finite_shows_even_where_it_is_dropped(poison: float) -> None:
    x, norm = torch.zeros(2, 16), drawn_norm(16)
    y = torch.full((2, 16), poison, requires_grad=True)
    assert not add_dropout(x, y, 0.999).isfinite().any()
    assert not add_dropout_norm(x, y, 0.999, norm).isfinite().any()


@DTYPE_BITS
@pytest.mark.usefixtures("three_threads")
def test_a_row_has_the_same_bits_in_any_batch_and_with_any_number_of_threads(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output and gradients of the inputs; those of weight and bias are sums over the rows."""
    torch.manual_seed(0)
    x, d_out, norm = torch.randn(7, 64, requires_grad=True), torch.randn(7, 64), drawn_norm(64)
    y = torch.randn(7, 64).to(dtype).requires_grad_()

    def of(rows: slice) -> list[Tensor]:
        torch.manual_seed(1)
        monkeypatch.setattr(operators, "draw_mask", lambda *_: (numbers[rows], *rest))
        a, b = x[rows].detach().requires_grad_(), y[rows].detach().requires_grad_()
        leaves = a, b, norm.weight, norm.bias
        found = gradients(add_dropout_norm(a, b, 0.3, norm), d_out[rows], *leaves)
        return found[:3] + gradients(add_dropout(a, b, 0.3), d_out[rows], a, b)

    numbers, *rest = operators.draw_mask(x.shape, 0.3)
    alone = [torch.cat(parts) for parts in zip(*(of(slice(i, i + 1)) for i in range(7)), strict=True)]
    assert all(map(torch.equal, of(slice(None)), alone))


@pytest.mark.usefixtures("three_threads")
def test_gradients_of_weight_and_bias_do_not_vary() -> None:
    torch.manual_seed(0)
    x, d_out, norm = torch.randn(50, 32), torch.randn(50, 32), drawn_norm(32)
    found = [gradients(add_dropout_norm(x, x, 0.0, norm), d_out, norm.weight, norm.bias) for _ in range(5)]
    assert all(torch.equal(one, other) for again in found for one, other in zip(found[0], again, strict=True))


def test_what_it_cannot_do_goes_to_the_reference() -> None:
    x, odd, norm = torch.randn(2, 16), torch.randn(2, 20), nn.LayerNorm(16)
    assert residual.accepts_sum_and_norm(x, x, 0.3, norm)
    assert not residual.accepts_sum_and_norm(odd, odd, 0.3, nn.LayerNorm(20))
    assert not residual.accepts_sum_and_norm(x, x[:1], 0.3, norm)
    assert not residual.accepts_sum_and_norm(x, x, 0.3, nn.LayerNorm(16, bias=False))
    assert not residual.accepts_sum_and_norm(x, x, 0.3, nn.LayerNorm(16, elementwise_affine=False))
    assert not residual.accepts_sum_and_norm(x, x, 0.3, nn.LayerNorm((2, 16)))
    assert not residual.accepts_sum_and_norm(x.bfloat16(), x.bfloat16(), 0.3, norm)
    assert not residual.accepts_sum_and_norm(x, x, 0.3, nn.LayerNorm(16, dtype=torch.bfloat16))
    assert not residual.accepts_sum_and_norm(x, x.to("meta"), 0.3, norm)
    assert not residual.accepts_sum(x, x[:1], 0.3)
    assert not residual.accepts_sum(x.double(), x, 0.3)
    assert not residual.accepts_dropout(x.double(), 0.3)
    assert not residual.accepts_dropout(x, 0.0)


@DTYPE_BITS
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_model_has_the_loss_and_the_gradients_of_the_reference(norm: str, dtype: torch.dtype) -> None:
    vocab = Vocab(src=50, tgt=50, joint=True)
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 2}
    config = TransformerConfig(**sizes, dropout=0.3, relu_dropout=0.1, norm=norm)  # type: ignore[arg-type]
    torch.manual_seed(0)
    model = Transformer(config, vocab).train()
    draw = torch.Generator().manual_seed(2)
    ids = [torch.randint(4, 50, (n,), generator=draw).numpy() for n in (3, 9, 5, 8)]
    batch, found = make_batch(list(zip(ids, ids[::-1], strict=True)), vocab), []
    for around in (nullcontext(), as_references()):
        torch.manual_seed(1)
        model.zero_grad()
        with around, torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = LabelSmoothed(LabelSmoothedConfig())(model, batch).loss
            loss.backward()
        found.append([loss.detach(), torch.rand(()), *(p.grad for p in model.parameters() if p.grad is not None)])
    error = 2e-5 if dtype == torch.float32 else 0.03
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=error, atol=error * float(other.abs().max()))
    assert torch.equal(found[0][1], found[1][1]), "both draw as many random numbers"


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_torch_func_takes_the_reference(p: float) -> None:
    """Random numbers, too: a function in C would write to a tensor that torch.func has wrapped."""
    x, norm = torch.randn(3, 16), drawn_norm(16)

    def loss(x: Tensor) -> Tensor:
        return add_dropout_norm(x, x, p, norm).square().sum() + apply_dropout(x, p).square().sum()

    found = []
    for around in (as_references(), nullcontext()):
        torch.manual_seed(1)
        with around:
            found.append(torch.func.grad(loss)(x))
    leaf = x.clone().requires_grad_()
    torch.manual_seed(1)
    expected = torch.autograd.grad(loss(leaf), leaf)[0]
    for gradient in found:
        torch.testing.assert_close(gradient, expected)
