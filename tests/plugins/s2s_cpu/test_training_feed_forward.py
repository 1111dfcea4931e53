"""Feed-forward networks of training in bf16 as one function in C, against float64 and against two linear maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from harness.reference_operators import references
from s2s.backend import Operator
from s2s.backend.linear import apply_feed_forward
from s2s.nn import Linear
from s2s.plugin import load_plugins
from s2s_cpu.bf16_linear import has_bf16_linear
from s2s_cpu.training_feed_forward import accepts_feed_forward
from s2s_testing import VOCAB
from s2s_transformer import TransformerConfig
from s2s_transformer.layers import DecoderLayer, EncoderLayer, FeedForward
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

needs_bf16 = pytest.mark.skipif(not has_bf16_linear(), reason="no AVX512-BF16, or no functions in C")


@pytest.fixture(autouse=True)
def plugins() -> None:
    load_plugins()


class Network(NamedTuple):
    """Two linear maps and their input, x [..., I]."""

    x: Tensor
    w1: Tensor
    b1: Tensor | None
    w2: Tensor
    b2: Tensor | None

    def accepted(self) -> bool:
        """Whether it is one function."""
        return accepts_feed_forward(self.x, (self.w1, self.b1), (self.w2, self.b2))

    def trained(self) -> Network:
        """Copies that require gradients."""
        return Network(*(t if t is None else t.clone().requires_grad_() for t in self))  # type: ignore[arg-type]


def drawn(n: int, width: int, inner: int, *, has_bias: bool = False, dtype: torch.dtype = torch.float32) -> Network:
    """With n rows, of which biases are what torch rounds them to."""
    torch.manual_seed(n)
    b1, b2 = (torch.randn(size).bfloat16().float() if has_bias else None for size in (inner, width))
    return Network(
        torch.randn(n, width).to(dtype), torch.randn(inner, width) / 5, b1, torch.randn(width, inner) / 9, b2
    )


def outputs_and_gradients(network: Network, function: Callable[..., Tensor] = apply_feed_forward) -> list[Tensor]:
    leaves = network.trained()
    out = function(leaves.x, (leaves.w1, leaves.b1), (leaves.w2, leaves.b2))
    return [out.detach(), *torch.autograd.grad(out.double().sin().sum(), [t for t in leaves if t is not None])]


@needs_bf16
@pytest.mark.parametrize("n", [257, 300, 1000, 1537])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_outputs_and_gradients_are_near_those_of_float64(n: int, has_bias: bool, dtype: torch.dtype) -> None:
    """As near as those of torch's own operations in bf16; rows, inputs and outputs at the edges of blocks."""
    network = drawn(n, 64, 96, has_bias=has_bias, dtype=dtype)
    exact = Network(*(t if t is None else t.bfloat16().double() for t in network))  # type: ignore[arg-type]
    truth = outputs_and_gradients(exact, apply_feed_forward.reference)
    with torch.autocast("cpu", torch.bfloat16):
        assert network.trained().accepted()
        found = outputs_and_gradients(network)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Operator, "use_implementations", False)
            torchs = outputs_and_gradients(network)
    for one, other, right in zip(found, torchs, truth, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        error, allowed = (one.double() - right).norm(), (other.double() - right).norm()
        assert error <= 1.1 * allowed + 1e-6


@needs_bf16
@pytest.mark.parametrize("shape", [(1000, 64), (20, 31, 64)], ids=["rows", "sentences"])
def test_it_has_the_bits_of_two_linear_maps(shape: tuple[int, ...]) -> None:
    """Whose relu and its gradient are passes of their own."""
    network = drawn(1000, 64, 256, has_bias=True)._replace(x=torch.randn(shape))
    with torch.autocast("cpu", torch.bfloat16):
        found = outputs_and_gradients(network)
        expected = outputs_and_gradients(network, apply_feed_forward.reference)
    assert all(map(torch.equal, found, expected))


@needs_bf16
@pytest.mark.usefixtures("three_threads")
def test_threads_change_no_bit() -> None:
    network = drawn(3000, 256, 512, has_bias=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = outputs_and_gradients(network)
        torch.set_num_threads(1)
        assert all(map(torch.equal, found, outputs_and_gradients(network)))


@needs_bf16
def test_what_is_not_finite_stays_in_its_row() -> None:
    """The relu keeps NaN, as torch's does."""
    network = drawn(300, 64, 64)
    network.x[5, 7] = torch.nan
    with torch.autocast("cpu", torch.bfloat16):
        out = outputs_and_gradients(network)[0]
    assert (~out.isfinite()).any(1).nonzero().flatten().tolist() == [5]


@needs_bf16
def test_gradients_of_what_is_not_finite_are_those_of_two_linear_maps() -> None:
    """Also where sums are a negative NaN, as the processor makes it of inf - inf."""
    network = drawn(300, 64, 96)
    network.x[5, 7], network.x[5, 8], network.x[9, 1] = torch.inf, -torch.inf, torch.nan
    with torch.autocast("cpu", torch.bfloat16):
        found = outputs_and_gradients(network)
        expected = outputs_and_gradients(network, apply_feed_forward.reference)
    assert expected[2].isnan().any()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@needs_bf16
@pytest.mark.parametrize("frozen", ["w1", "w2"])
def test_frozen_parameters_get_no_gradient(frozen: str) -> None:
    network = drawn(300, 64, 64).trained()
    getattr(network, frozen).requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert not network.accepted()
        apply_feed_forward(network.x, (network.w1, None), (network.w2, None)).sum().backward()
    assert [network.w1.grad is None, network.w2.grad is None] == [frozen == "w1", frozen == "w2"]


@needs_bf16
def test_other_widths_and_passes_without_gradients_are_left_to_linear_maps() -> None:
    network = drawn(300, 64, 64).trained()
    assert not network.accepted(), "outside of autocast"
    with torch.autocast("cpu", torch.bfloat16):
        assert network.accepted()
        assert not drawn(300, 40, 64).trained().accepted()
        assert not drawn(300, 64, 40).trained().accepted()
        with torch.no_grad():
            assert not network.accepted()


def test_a_hook_or_an_option_makes_the_layer_call_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TransformerConfig(d_model=32, d_ff=64, n_heads=4, n_encoder_layers=1, n_decoder_layers=1)
    calls, reference = 0, apply_feed_forward.reference

    def counted(*arguments: object) -> Tensor:
        nonlocal calls
        calls += 1
        return reference(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_feed_forward, "reference", counted)
    x, layer = torch.randn(3, 32, requires_grad=True), FeedForward(config)
    plain = layer(x)
    assert calls == 1
    seen: list[object] = []
    inner, note = layer.inner, lambda *given: seen.append(given)
    of_call = inner.register_forward_pre_hook, inner.register_forward_hook
    of_gradient = inner.register_full_backward_pre_hook, inner.register_full_backward_hook
    for register in (*of_call, *of_gradient):
        hook = register(note)
        result = layer(x)
        result.sum().backward()
        torch.testing.assert_close(result, plain)
        assert len(seen) == 1, register
        hook.remove()
        seen.clear()
    original = inner.forward
    inner.forward = lambda given: note(given) or original(given)  # type: ignore[method-assign,func-returns-value]
    torch.testing.assert_close(layer(x), plain)
    assert len(seen) == 1
    del inner.forward
    nn.utils.parametrize.register_parametrization(layer.out, "weight", nn.Identity())
    torch.testing.assert_close(layer(x), plain)
    assert calls == 1, "neither a module with hooks nor one whose weight is computed is passed by"


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("register", [register_module_forward_pre_hook, register_module_forward_hook])
def test_hooks_of_all_modules_are_called_in_training(register: Callable[..., Any], norm: Any) -> None:
    """Of those that the references call; with the same dropout, loss and gradients."""
    config = TransformerConfig(d_model=256, d_ff=512, n_heads=4, n_encoder_layers=1, n_decoder_layers=1, norm=norm)
    torch.manual_seed(0)
    one, src, tgt = Transformer(config, VOCAB).train(), torch.randint(4, 10, (300, 5)), torch.randint(4, 10, (300, 4))

    def gradients() -> list[Tensor]:
        torch.manual_seed(1)
        one.zero_grad()
        one(src, src == VOCAB.pad, tgt).square().sum().backward()
        return [p.grad for p in one.parameters() if p.grad is not None]

    def seen() -> set[nn.Module]:
        modules = set[nn.Module]()
        hook = register(lambda module, *_: modules.add(module))
        try:
            found = gradients()
        finally:
            hook.remove()
        for ours, theirs in zip(found, plain, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        return modules

    plain = gradients()
    modules = seen()
    with references():
        assert modules == seen()
    assert {type(module) for module in modules} >= {nn.LayerNorm, Linear, FeedForward, EncoderLayer, DecoderLayer}
