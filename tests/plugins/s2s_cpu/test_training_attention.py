"""Attention of short and long sentences in C and its gradient against equation 1 in float64, and against what torch
computes in the same type."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import s2s_cpu.tiled_attention
from harness.reference_operators import references
from s2s import Vocab
from s2s.backend.operators import draw_mask, short_attention, tiled_attention
from s2s.backend.operators.attention import BLOCKED, math_attention
from s2s.batch import make_batch
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s_cpu.library import native_library
from s2s_cpu.tiled_attention import draw_kept, unpack
from s2s_cpu.training_attention import accepts_attention
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.backend.operators import Kernel

KERNELS = pytest.mark.parametrize("kernel", [short_attention, tiled_attention], ids=["short", "tiled"])
pytestmark = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)

HEADS = 2
SHORT_SHAPES = [(1, 1), (5, 1), (16, 16), (17, 33), (40, 17), (2, 128), (130, 20)]
"""Queries, keys"""
LONG_SHAPES = [(17, 33), (20, 257), (130, 20), (67, 600), (300, 290)]
"""Blocks, tiles, and sizes between; where a query sees only one or two keys, gradients of scores nearly cancel out"""
WIDTHS = [(32, 32), (5, 19), (16, 64), (64, 7)]
"""d_k, d_v"""


def drawn(n_sentences: int, length: int, *widths: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A projection [B, length, h * sum of widths]."""
    draw = torch.Generator().manual_seed(n_sentences + length + sum(widths))
    x = torch.randn(n_sentences, length, HEADS * sum(widths), generator=draw)
    return (x * 1.5).to(dtype).requires_grad_()


def heads(x: Tensor, *widths: int) -> list[Tensor]:
    """Its parts, [B, h, length, d] each."""
    parts = x.split([HEADS * width for width in widths], dim=-1)
    return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]


def padding(n_sentences: int, n_keys: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The first half of the keys is seen of every second sentence, all of the others."""
    pad = (torch.arange(n_keys) > n_keys // 2) & (torch.arange(n_sentences) % 2 == 1)[:, None]
    return (pad * BLOCKED).to(dtype)[:, None, None]


def results(
    kernel: Kernel,
    projections: Sequence[Tensor],
    widths: tuple[int, int],
    bias: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> list[Tensor]:
    """The output, and the gradients of q's and of k's and v's projection (or of one of all three)."""
    torch.manual_seed(7)
    d_k, d_v = widths
    if len(projections) == 1:
        q, k, v = heads(projections[0], d_k, d_k, d_v)
    else:
        (q,), (k, v) = heads(projections[0], d_k), heads(projections[1], d_k, d_v)
    out = kernel(q, k, v, bias, causal, dropout)
    d_out = torch.linspace(-1, 1, out.numel()).sin().view(out.shape).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, projections, d_out)]


def exact(projections: Sequence[Tensor]) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in projections]


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm().clamp(min=1e-6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("mode", ["all", "causal", "padded"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize(("kernel", "shape"), [
    *(pytest.param(short_attention, shape, id=f"short-{shape}") for shape in SHORT_SHAPES),
    *(pytest.param(tiled_attention, shape, id=f"tiled-{shape}") for shape in LONG_SHAPES),
])  # fmt: skip
def test_it_is_equation_1_with_the_same_words_drawn(
    kernel: Kernel, shape: tuple[int, int], widths: tuple[int, int], mode: str, dropout: float, dtype: torch.dtype
) -> None:
    """In bf16 no further from float64 than torch's own products of bf16, in fp32 than rounding."""
    given = [drawn(3, shape[0], widths[0], dtype=dtype), drawn(3, shape[1], *widths, dtype=dtype)]
    how = (padding(3, shape[1], dtype) if mode == "padded" else None, mode == "causal", dropout)
    found, expected = results(kernel, given, widths, *how), results(math_attention, exact(given), widths, *how)
    with torch.autocast("cpu", torch.bfloat16) if dtype == torch.bfloat16 else nullcontext():
        in_torch = results(math_attention, given, widths, *how)
    for one, other, truth in zip(found, in_torch, expected, strict=True):
        assert one.dtype == dtype
        limit = 2e-6 if dtype == torch.float32 else max(1.1 * error(other, truth), 3e-3)
        assert error(one, truth) < limit


def test_dropout_of_long_sentences_is_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six rows each, which begin anywhere among the 32 whose bits share a number."""
    monkeypatch.setattr(s2s_cpu.tiled_attention, "DRAWN_AT_ONCE", 200)
    shape = (2, 3, 37, 33)
    torch.manual_seed(4)
    kept, factor = draw_kept(shape, 0.4)
    torch.manual_seed(4)
    parts = [draw_mask(torch.Size((6, 33)), 0.4) for first in range(0, 222, 6)]
    words = torch.cat([part.words for part in parts]).view(shape)
    assert factor == parts[0].factor
    assert torch.equal(unpack(kept, 37, 33), words >= parts[0].threshold)


@KERNELS
@pytest.mark.parametrize("causal", [False, True])
def test_three_parts_of_one_projection_give_it_one_gradient(kernel: Kernel, causal: bool) -> None:
    given = [drawn(3, 19, 32, 32, 16)]
    found = results(kernel, given, (32, 16), None, causal)
    expected = results(math_attention, exact(given), (32, 16), None, causal)
    assert max(map(error, found, expected)) < 2e-6


@KERNELS
def test_parts_of_more_than_one_projection_and_strided_rows_get_their_own_gradients(kernel: Kernel) -> None:
    """q and k lie in a tensor that has more columns; v is transposed."""
    torch.manual_seed(1)
    wide, other = torch.randn(2, 9, 2 * 64 + 3, requires_grad=True), torch.randn(2, 2, 9, 5, requires_grad=True)

    def both(each: Kernel, wide: Tensor, other: Tensor) -> list[Tensor]:
        q, k = heads(wide[..., 3:], 32, 32)
        out = each(q, k, other.mT.contiguous().mT.contiguous(), None, False, 0.0)
        return [out.detach(), *torch.autograd.grad((out * out).sum(), (wide, other))]

    found, expected = both(kernel, wide, other), both(math_attention, *exact([wide, other]))
    assert max(map(error, found, expected)) < 2e-6


@KERNELS
@pytest.mark.parametrize("length", [7, 300])
@pytest.mark.parametrize("which", ["q", "k", "v", "qk", "qv", "kv"])
def test_only_the_gradients_that_are_wanted_are_given(kernel: Kernel, which: str, length: int) -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(2, 2, length, 8, requires_grad=name in which) for name in "qkv"]

    def gradients(each: Kernel, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        out = each(*inputs, None, False, 0.0)
        return torch.autograd.grad((out**2).sum(), [x for x in inputs if x.requires_grad])

    doubles = [x.detach().double().requires_grad_(x.requires_grad) for x in inputs]
    found, expected = gradients(kernel, inputs), gradients(math_attention, doubles)
    assert all(error(one, truth) < 2e-6 for one, truth in zip(found, expected, strict=True))


@KERNELS
def test_a_sentence_with_nothing_but_padding_gives_no_nan(kernel: Kernel) -> None:
    given = [drawn(2, 6, 8), drawn(2, 6, 8, 8)]
    bias = torch.full((2, 1, 1, 6), BLOCKED)
    found, expected = (results(each, given, (8, 8), bias) for each in (kernel, math_attention))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)  # scores near -30,000 have few digits


@KERNELS
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)], ids=["fp32", "bf16"])
def test_keys_with_a_bias_of_minus_infinity_have_no_weight(
    kernel: Kernel, dtype: torch.dtype, limit: float, dropout: float
) -> None:
    """Also where they are the first 300 of 400, and fill a tile of their own."""
    given = [drawn(2, 20, 16, dtype=dtype), drawn(2, 400, 16, 16, dtype=dtype)]
    bias = torch.zeros(2, 1, 1, 400, dtype=dtype)
    bias[0, ..., :300] = -torch.inf
    found, expected = (
        results(each, x, (16, 16), bias, False, dropout)
        for each, x in ((kernel, given), (math_attention, exact(given)))
    )
    assert all(error(one, truth) < limit for one, truth in zip(found, expected, strict=True))
    assert not found[2][0, :300].any()


@KERNELS
def test_a_sentence_whose_keys_all_have_minus_infinity_is_nan_as_in_equation_1(kernel: Kernel) -> None:
    given = [drawn(2, 6, 8), drawn(2, 400, 8, 8)]
    bias = torch.zeros(2, 1, 1, 400)
    bias[0] = -torch.inf
    found, expected = (results(each, given, (8, 8), bias)[:2] for each in (kernel, math_attention))
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found[0][0].isnan().all()


@KERNELS
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_what_is_not_finite_shows_in_the_result(kernel: Kernel, poison: float) -> None:
    given = [drawn(2, 6, 8), drawn(2, 20, 8, 8)]
    with torch.no_grad():
        given[1][1, 3, 2] = poison
    out, *_ = results(kernel, given, (8, 8))
    assert out[0].isfinite().all()
    assert not out[1].isfinite().all()


@KERNELS
@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "padded"), [(23, 40), (270, 330)])
def test_a_sentence_has_the_same_bits_alone_and_with_more_padding(
    kernel: Kernel, length: int, padded: int, causal: bool, dtype: torch.dtype
) -> None:
    """The batch is divided among threads, too."""
    given = drawn(5, padded, 32, 32, 32, dtype=dtype)
    bias = None if causal else (torch.arange(padded) >= length).mul(BLOCKED).to(dtype).expand(5, 1, 1, padded)

    def both(x: Tensor, bias: Tensor | None, n: int) -> list[Tensor]:
        x = x.detach().clone().requires_grad_()
        out = kernel(*heads(x, 32, 32, 32), bias, causal, 0.0)[:, :, :n]
        return [out.detach(), *torch.autograd.grad((out * out).sum(), x)]

    together = both(given, bias, length)
    for b in range(5):
        alone = both(given[b : b + 1, :length], None, length)
        assert torch.equal(together[0][b], alone[0][0])
        assert torch.equal(together[1][b, :length], alone[1][0])


@KERNELS
def test_a_gradient_may_have_a_gradient(kernel: Kernel) -> None:
    given = drawn(2, 5, 4, 4, 4).detach().double().requires_grad_()

    def twice(each: Kernel, x: Tensor) -> Tensor:
        torch.manual_seed(3)
        (first,) = torch.autograd.grad(each(*heads(x, 4, 4, 4), None, True, 0.4).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    single = given.detach().float().requires_grad_()
    assert accepts_attention(*heads(single, 4, 4, 4), None, True, 0.4)
    assert error(twice(kernel, single), twice(math_attention, given)) < 1e-5


def test_what_it_does_not_do_goes_to_torch() -> None:
    q, k, v = heads(drawn(2, 5, 4, 4, 4), 4, 4, 4)
    assert accepts_attention(q, k, v, padding(2, 5), False, 0.0)
    assert not accepts_attention(q, k, v, padding(2, 5), True, 0.0)
    assert not accepts_attention(q, k, v, torch.zeros(5, 5), False, 0.0)
    assert not accepts_attention(q, k[:, :1], v[:, :1], None, False, 0.0)
    assert not accepts_attention(q.half(), k.half(), v.half(), None, False, 0.0)
    assert not accepts_attention(q.to("meta"), k.to("meta"), v.to("meta"), None, False, 0.0)
    assert not accepts_attention(q[0], k[0], v[0], None, False, 0.0)
    assert not accepts_attention(q[:0], k[:0], v[:0], None, False, 0.0)
    assert not accepts_attention(q.mT.contiguous().mT, k, v, None, False, 0.0)


def test_torch_func_maps_the_reference() -> None:
    x = torch.randn(3, 2, 2, 5, 4)
    found = torch.func.vmap(lambda q: short_attention(q, x[0], x[0], None, False, 0.0))(x)
    torch.testing.assert_close(found, torch.stack([math_attention(q, x[0], x[0], None, False, 0.0) for q in x]))


def test_a_model_learns_the_same_as_with_torch() -> None:
    """With dropout of the weights, since both draw the same words; in bf16, on average no further from fp32."""
    vocab = Vocab(src=17, tgt=17, joint=True)
    batch = make_batch([([4, 5, 6, 7], [8, 9, 10]), ([11], [12, 13, 14, 15, 16]), ([5, 5, 8], [4])], vocab)
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 2}
    loss = LabelSmoothed(LabelSmoothedConfig())

    def learnt(model: Transformer, *, bf16: bool) -> Tensor:
        """All gradients."""
        model.zero_grad()
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            sums = loss.token_sums(model, batch)
        sums.loss.backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    ours, torchs = [], []
    for seed in range(6):
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**sizes, attention_dropout=0.2), vocab).train()  # type: ignore[arg-type]
        with references():
            expected, in_bf16 = learnt(model, bf16=False), learnt(model, bf16=True)
        assert error(learnt(model, bf16=False), expected.double()) < 1e-5
        ours.append(error(learnt(model, bf16=True), expected.double()))
        torchs.append(error(in_bf16, expected.double()))
    assert sum(ours) < 1.5 * sum(torchs)


class Reversed(torch.autograd.Function):
    """The same values, of which the gradient is negated."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return -gradient


@KERNELS
def test_what_stands_between_projection_and_attention_sees_the_gradient(kernel: Kernel) -> None:
    x = drawn(2, 5, 8, 8, 8).detach()
    found = []
    for around in (lambda x: x, Reversed.apply):
        given = x.clone().requires_grad_()
        q, k, v = heads(around(given * 1), 8, 8, 8)
        found.append(torch.autograd.grad(kernel(q, k, v, None, False, 0.0).sum(), given)[0])
    torch.testing.assert_close(found[1], -found[0])


@KERNELS
def test_keys_that_are_not_read_have_no_gradient(kernel: Kernel) -> None:
    x = drawn(2, 6, 8, 8, 8)
    q, k, v = heads(x, 8, 8, 8)
    found = []
    for each in (kernel, math_attention):
        out = each(q, k[:, :, :4], v[:, :, :4], None, False, 0.0)
        found.append(torch.autograd.grad((out * torch.arange(8.0)).sum(), x, retain_graph=True)[0])
    torch.testing.assert_close(*found)
    assert not found[0][:, 4:, 8 * HEADS :].any()


@KERNELS
def test_a_number_that_is_none_stays_in_its_sentence(kernel: Kernel) -> None:
    x = drawn(2, 5, 8, 8, 8).detach()
    x[0, 4, 8 * HEADS : 16 * HEADS] = float("nan")
    bias = torch.zeros(2, 1, 1, 5)
    bias[1, ..., 3:] = BLOCKED
    x.requires_grad_()
    out = kernel(*heads(x, 8, 8, 8), bias, False, 0.0)
    assert out[0].isnan().any()
    assert out[1].isfinite().all()
