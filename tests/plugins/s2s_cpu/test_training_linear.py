"""Linear maps of training in bf16, by functions in C or by torch in few shapes, against torch's own product."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from s2s.backend.linear import apply_linear
from s2s.plugin import load_plugins
from s2s_cpu import training_linear
from s2s_cpu.bf16_linear import apply_weight, has_bf16_linear, input_gradient, weight_gradient
from s2s_cpu.training_linear import MIN_BATCH_ROWS, accepts_linear, block_size, outer_product_sum, split_blocks

needs_bf16 = pytest.mark.skipif(not has_bf16_linear(), reason="no AVX512-BF16, or no functions in C")


@pytest.fixture(autouse=True)
def plugins() -> None:
    load_plugins()


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors without products of bf16."""
    monkeypatch.setattr(training_linear, "uses_bf16_linear", lambda _: False)


@pytest.fixture(params=["torch", pytest.param("C", marks=needs_bf16)])
def way(request: pytest.FixtureRequest) -> str:
    """Each way in turn."""
    if request.param == "torch":
        request.getfixturevalue("by_torch")
    return str(request.param)


class Products(TorchDispatchMode):
    """Notes the shapes of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            left, right = args[-2:] if func.overloadpacket is torch.ops.aten.mm else args[1:3]
            self.shapes.add((*left.shape, right.size(1)))
        return func(*args, **(kwargs or {}))


def outputs_and_gradients(function: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias) if t is not None]
    with torch.autocast("cpu", torch.bfloat16):
        out = function(*leaves, *([None] if bias is None else []))
    return [out.detach(), *torch.autograd.grad(out.float().sin().sum(), leaves)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [17, 33, 95, 1000, 4095])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_outputs_and_gradients_are_near_those_of_float64(n: int, has_bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(n)
    x, weight = torch.randn(n, 32, dtype=dtype), torch.randn(40, 32) / 5
    if n < MIN_BATCH_ROWS:
        x = torch.stack([x, x])
    bias = torch.randn(40).bfloat16().float() if has_bias else None  # which torch rounds
    with torch.autocast("cpu", torch.bfloat16):
        assert accepts_linear(x, weight, bias) is True
    found = outputs_and_gradients(apply_linear, x, weight, bias)
    torchs = outputs_and_gradients(apply_linear.reference, x, weight, bias)
    exact = [x.double(), weight.bfloat16().double(), None if bias is None else bias.bfloat16().double()]
    with torch.autocast("cpu", enabled=False):
        truth = outputs_and_gradients_in_float64(*exact)  # type: ignore[arg-type]
    for one, other, right in zip(found, torchs, truth, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        error, allowed = (one.double() - right).norm(), (other.double() - right).norm()
        assert error <= 1.1 * allowed + 1e-6


def outputs_and_gradients_in_float64(x: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias) if t is not None]
    out = nn.functional.linear(leaves[0], leaves[1], None if bias is None else leaves[2])
    return [out.detach(), *torch.autograd.grad(out.sin().sum(), leaves)]


@pytest.mark.usefixtures("way")
def test_leading_dimensions_stay() -> None:
    x, weight = torch.randn(5, 7, 32), torch.randn(8, 32)
    found = outputs_and_gradients(lambda x, w, b: apply_linear(x.transpose(0, 1), w, b), x, weight, None)
    assert found[0].shape == (7, 5, 8)
    expected = outputs_and_gradients(lambda x, w, b: apply_linear.reference(x.transpose(0, 1), w, b), x, weight, None)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=0.1)


@pytest.mark.usefixtures("way")
def test_weights_and_biases_may_lie_anywhere() -> None:
    x, weight, table = torch.randn(300, 64), torch.randn(64, 40), torch.randn(40, 3).bfloat16().float()
    one = torch.full((1,), 7.0)
    for bias in (table[:, 0], one.expand(40)):
        found = outputs_and_gradients(lambda x, w, b: apply_linear(x, w.t(), b), x, weight, bias)
        expected = outputs_and_gradients(lambda x, w, b: apply_linear.reference(x, w.t(), b), x, weight, bias)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-2, atol=0.1)


@pytest.mark.usefixtures("way")
def test_without_outputs_the_gradient_is_0() -> None:
    x = torch.randn(300, 64, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        apply_linear(x, torch.empty(0, 64), None).sum().backward()
    assert x.grad is not None
    assert not x.grad.any()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("frozen", ["x", "weight", "bias"])
def test_what_needs_no_gradient_is_not_kept_for_one(frozen: str) -> None:
    tensors = {"x": torch.randn(300, 32), "weight": torch.randn(8, 32), "bias": torch.randn(8)}
    leaves = {name: t.requires_grad_(name != frozen) for name, t in tensors.items()}
    with torch.autocast("cpu", torch.bfloat16):
        out = apply_linear(*leaves.values())
        expected = apply_linear.reference(*leaves.values())
    kept = [x is not None for x in out.grad_fn.saved_tensors]  # type: ignore[union-attr]
    assert kept == [frozen != "x", frozen != "weight"], "the weight for x, x for the weight"
    wanted = [t for t in leaves.values() if t.requires_grad]
    found = torch.autograd.grad(out.sum(), wanted)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), wanted), rtol=1e-2, atol=0.1)


def test_steps_of_a_loop_are_torchs_which_casts_a_weight_once() -> None:
    weight = torch.randn(8, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert not accepts_linear(torch.randn(37, 16), weight, None)
        assert not accepts_linear(torch.randn(37, 1, 16), weight, None)
        assert accepts_linear(torch.randn(37, 2, 16), weight, None)
        assert accepts_linear(torch.randn(MIN_BATCH_ROWS + 1, 16), weight, None)


@pytest.mark.usefixtures("by_torch")
def test_few_shapes_are_multiplied_whatever_the_batch() -> None:
    """At most 16 numbers of whole blocks between two powers of two, and a block for the rest."""
    torch.manual_seed(0)
    weight, bias = torch.randn(32, 16), torch.randn(32)
    rows = range(1024, 4096, 7)
    with Products() as torchs:
        for n in rows:
            outputs_and_gradients(apply_linear.reference, torch.randn(n, 16), weight, bias)
    with Products() as own:
        for n in rows:
            outputs_and_gradients(apply_linear, torch.randn(n, 16), weight, bias)
    assert len(torchs.shapes) >= 3 * len(rows)
    assert len(own.shapes) <= 3 * 2 * (16 + 1)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 100, 4095, 4096])
def test_blocks_hold_all_rows_in_order(n: int) -> None:
    x = torch.randn(n, 3)
    whole, rest = split_blocks(x)
    assert len(whole) % block_size(n) == 0
    assert rest is None or len(rest) == block_size(n)
    together = whole if rest is None else torch.cat([whole, rest])
    assert torch.equal(together[:n], x)
    assert not together[n:].any()


@pytest.mark.usefixtures("by_torch")
def test_without_autocast_or_gradient_torch_multiplies() -> None:
    x, weight = torch.randn(2, 17, 4), torch.randn(3, 4)
    assert not accepts_linear(x, weight, None)
    with torch.autocast("cpu", torch.bfloat16):
        assert accepts_linear(x, weight, None)
        assert not accepts_linear(torch.randn(2, 16, 4), weight, None), "that is one of the few"
        with torch.no_grad():
            assert not accepts_linear(x, weight, None)


@needs_bf16
@pytest.mark.parametrize("shape", [
    (1, 32, 1), (31, 32, 33), (33, 64, 31), (64, 96, 64), (513, 32, 1003), (1030, 1088, 129), (600, 512, 40),
    (33, 32, 4100),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_functions_in_c_multiply_what_is_rounded_to_bf16_and_sum_in_fp32(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    """Rows, inputs and outputs at the edges of blocks, and more of each than are laid out at once."""
    n_rows, n_inputs, n_outputs = shape
    torch.manual_seed(sum(shape))
    x, d_out = torch.randn(n_rows, n_inputs).to(dtype), torch.randn(n_rows, n_outputs).bfloat16()
    weight, bias, d_bias = torch.randn(n_outputs, n_inputs), torch.randn(n_outputs), torch.empty(n_outputs)
    rows, exact, d_exact = x.bfloat16().double(), weight.bfloat16().double(), d_out.double()

    def close(found: Tensor, expected: Tensor, products: int) -> None:
        error = 2.0**-8 * expected.abs() if found.dtype == torch.bfloat16 else 0.0
        assert bool(((found.double() - expected).abs() <= error + 1e-6 * products).all())

    close(apply_weight(x, weight, bias), rows @ exact.t() + bias.double(), n_inputs)
    close(apply_weight(x, weight, None), rows @ exact.t(), n_inputs)
    dx = input_gradient(d_out, weight, dtype)
    assert dx.dtype == dtype
    close(dx, d_exact @ exact, n_outputs)
    close(weight_gradient(d_out, x, d_bias), d_exact.t() @ rows, n_rows)
    close(d_bias, d_exact.sum(0), n_rows)
    close(outer_product_sum(d_out, x.bfloat16()), d_exact.t() @ rows, n_rows)


@needs_bf16
@pytest.mark.usefixtures("three_threads")
def test_threads_and_other_rows_change_no_bit_of_a_product_in_c() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3000, 256), torch.randn(300, 256), torch.randn(300)
    d_out, d_bias = torch.randn(3000, 300).bfloat16(), torch.empty(300)
    dx, dw = input_gradient(d_out, weight, x.dtype), weight_gradient(d_out, x, d_bias)
    found = apply_weight(x, weight, bias), dx, dw, d_bias
    torch.set_num_threads(1)
    alone = torch.empty(300)
    assert torch.equal(found[0], apply_weight(x, weight, bias))
    assert torch.equal(found[0][1000:1001], apply_weight(x[1000:1001], weight, bias))
    assert torch.equal(found[1], input_gradient(d_out, weight, x.dtype))
    assert torch.equal(found[1][999:1040], input_gradient(d_out[999:1040], weight, x.dtype))
    assert torch.equal(found[2], weight_gradient(d_out, x, alone))
    assert torch.equal(found[3], alone)


@needs_bf16
@pytest.mark.parametrize("place", [(0, 5), (40, 31)])
def test_what_is_not_finite_stays_in_its_row(place: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(70, 32), torch.randn(50, 32)
    x[place] = torch.nan
    wrong = apply_weight(x, weight, None).isfinite().logical_not()
    assert wrong[place[0]].all()
    assert wrong.sum() == 50


def test_shapes_that_do_not_fit_are_left_to_torch() -> None:
    """Which refuses rows of another width, and spreads a bias of one value."""
    x, weight = torch.randn(20, 19, 32), torch.randn(48, 64)  # 380 rows are no whole blocks
    with torch.autocast("cpu", torch.bfloat16):
        assert accepts_linear(x, weight[:, :32].clone(), torch.randn(48))
        assert not accepts_linear(x, weight[:, :32].clone(), torch.randn(1))
        assert not accepts_linear(x, weight, None)
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            apply_linear(x, weight, None)


@needs_bf16
def test_the_gradient_of_no_rows_is_zero() -> None:
    found = weight_gradient(torch.empty(0, 40, dtype=torch.bfloat16), torch.empty(0, 32), bias := torch.ones(40))
    assert not found.any()
    assert not bias.any()


@needs_bf16
def test_gradients_in_another_order_of_dimensions_are_read_as_they_are() -> None:
    d_out, x = torch.randn(40, 50).bfloat16().t(), torch.randn(32, 50).t()
    assert torch.equal(weight_gradient(d_out, x, None), weight_gradient(d_out.contiguous(), x.contiguous(), None))
