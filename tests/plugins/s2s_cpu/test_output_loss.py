"""The loss of products of rows and a matrix in C against autograd in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from s2s.backend import operators
from s2s.batch import make_batch
from s2s.nn import LabelSmoothedConfig
from s2s.nn.chunked_loss import Positions
from s2s.nn.loss import LabelSmoothed, TokenSums
from s2s.task import Vocab
from s2s_cpu.bf16_linear import has_bf16_linear
from s2s_cpu.output_loss import accepts_output, output_loss
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

pytestmark = pytest.mark.skipif(not has_bf16_linear(), reason="no products in bf16")

LOSS = LabelSmoothed(LabelSmoothedConfig())


def drawn(n: int, n_symbols: int, width: int = 64, scale: float = 1.0) -> tuple[Positions, Tensor]:
    """Values that bf16 has, of which products are exact, with the largest logits often at the target."""
    draw = torch.Generator().manual_seed(n * n_symbols)
    matrix = torch.randn(n_symbols, width, generator=draw) * width**-0.5 * scale
    target = torch.randint(n_symbols, (n,), generator=draw)
    hidden = torch.randn(n, width, generator=draw) + 4 / scale * matrix[target]
    hidden, matrix = (x.bfloat16().float().requires_grad_() for x in (hidden, matrix))
    return Positions(hidden, target, torch.arange(n) % 5 != 1), matrix


def computed(at: Positions, matrix: Tensor) -> tuple[Tensor, ...]:
    """Sums of loss and nll, and the gradients."""
    weights = LOSS.weights(len(matrix))
    loss, nll = output_loss(at.hidden, matrix, at.target, at.counts, weights.on_target, weights.on_each)
    return loss.detach(), nll, *torch.autograd.grad(3 * loss, [at.hidden, matrix])


def in_float64(at: Positions, matrix: Tensor) -> tuple[Tensor, ...]:
    hidden, matrix = (x.detach().double().requires_grad_() for x in (at.hidden, matrix))
    weights, log_probs = LOSS.weights(len(matrix)), (hidden @ matrix.t()).log_softmax(-1)[at.counts]
    nll = -log_probs.gather(-1, at.target[at.counts, None]).sum()
    loss = weights.on_target * nll - weights.on_each * log_probs.sum()
    return loss.detach(), nll.detach(), *torch.autograd.grad(3 * loss, [hidden, matrix])


def assert_close(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Sums are of floats; gradients of exponentials that were rounded to bf16."""
    for x, y in zip(found[:2], expected[:2], strict=True):
        torch.testing.assert_close(x.double(), y, rtol=1e-5, atol=1e-4)
    for x, y in zip(found[2:], expected[2:], strict=True):
        assert (x.double() - y).norm() <= 4e-3 * y.norm()


@pytest.mark.parametrize("n_symbols", [2, 31, 32, 257, 1003])
@pytest.mark.parametrize("n", [1, 3, 33, 600, 1030], ids="{} rows".format)
def test_sums_and_gradients_are_those_of_the_definition(n: int, n_symbols: int) -> None:
    at, matrix = drawn(n, n_symbols)
    assert_close(computed(at, matrix), in_float64(at, matrix))


def test_hidden_states_may_be_in_bf16() -> None:
    at, matrix = drawn(40, 100)
    narrow = at._replace(hidden=at.hidden.detach().bfloat16().requires_grad_())
    found = computed(narrow, matrix)
    assert found[2].dtype == torch.bfloat16
    assert_close(found, in_float64(at, matrix))


def test_exponentials_of_large_logits_do_not_overflow() -> None:
    at, matrix = drawn(40, 100, scale=30.0)
    logits = (at.hidden @ matrix.t())[at.counts]
    assert logits.max() > 88
    assert logits.min() < -88
    assert_close(computed(at, matrix), in_float64(at, matrix))


def test_exponentials_of_logits_far_below_zero_are_not_all_zero() -> None:
    at, matrix = drawn(1, 100)
    hidden = at.hidden.detach()
    matrix = (matrix - 150 * hidden.sign() / hidden.abs().sum()).detach().bfloat16().float().requires_grad_()
    assert (hidden @ matrix.t()).max() < -88
    assert_close(computed(at, matrix), in_float64(at, matrix))


def test_a_rows_gradient_has_the_same_bits_among_any_others() -> None:
    at, matrix = drawn(700, 300)
    alone = Positions(*(x[520:521].detach().requires_grad_(x.requires_grad) for x in at))
    assert torch.equal(computed(alone, matrix)[2], computed(at, matrix)[2][520:521])


def test_positions_that_do_not_count_have_no_part_in_it() -> None:
    at, matrix = drawn(80, 50)
    with torch.no_grad():
        at.hidden[~at.counts] = torch.nan
    *sums, d_hidden, d_matrix = computed(at, matrix)
    assert not d_hidden[~at.counts].any()
    assert all(x.isfinite().all() for x in (*sums, d_hidden, d_matrix))
    none = computed(at._replace(counts=torch.zeros(80, dtype=torch.bool)), matrix)
    assert not any(x.any() for x in none)


def test_a_logit_that_is_nan_makes_the_loss_nan() -> None:
    at, matrix = drawn(40, 50)
    with torch.no_grad():
        at.hidden[0, 0] = torch.nan
    assert computed(at, matrix)[0].isnan()


def test_rows_may_be_divided_among_threads() -> None:
    at, matrix = drawn(1000, 700, width=128)
    expected, n_threads = computed(at, matrix), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = computed(at, matrix)
    finally:
        torch.set_num_threads(n_threads)
    assert_close(found, tuple(x.double() for x in expected))
    assert torch.equal(found[2], expected[2])


@pytest.mark.parametrize(("n_threads", "rows", "n_symbols", "accepted"), [
    (1, 2048, 37000, True), (8, 2048, 37000, False), (8, 2048, 8000, True), (8, 1, 37000, True),
])  # fmt: skip
def test_memory_does_not_grow_with_threads(n_threads: int, rows: int, n_symbols: int, accepted: bool) -> None:
    """Each thread that gets rows has gradients and exponentials of its own; without them logits are held in chunks."""
    hidden, matrix = (torch.empty(n, 512, requires_grad=True) for n in (rows, n_symbols))
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            assert accepts_output(hidden, matrix) == accepted
    finally:
        torch.set_num_threads(before)


VOCAB = Vocab(src=90, tgt=90, joint=True)
BATCH = make_batch([(list(range(4, 30)), list(range(5, 40))), ([4, 7], [9, 9, 80])], VOCAB)


def transformer(kind: type[Transformer] = Transformer, **options: object) -> Transformer:
    torch.manual_seed(2)
    sizes = {"d_model": 64, "d_ff": 64, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return kind(TransformerConfig(**sizes, dropout=0.0, **options), VOCAB)  # type: ignore[arg-type]


def test_a_transformers_update_holds_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loss and gradients are about those of chunks of logits, which are rounded to bf16."""
    model = transformer()

    def update(chunk: int | None) -> tuple[float, list[Tensor]]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            sums = LabelSmoothed(LabelSmoothedConfig(chunk=chunk))(model, BATCH)
        sums.loss.backward()
        return sums.loss.item(), [p.grad for p in model.parameters() if p.grad is not None]

    loss, gradients = update(256)
    calls: list[int] = []
    project = Transformer.project
    monkeypatch.setattr(Transformer, "project", lambda self, x: calls.append(1) or project(self, x))
    found, found_gradients = update(None)
    assert calls == []
    assert found == pytest.approx(loss, rel=1e-3)
    for x, y in zip(found_gradients, gradients, strict=True):
        assert (x - y).norm() <= 2e-2 * y.norm() + 1e-6


class OtherProject(Transformer):
    def project(self, hidden: Tensor) -> Tensor:
        return 2 * super().project(hidden)


@pytest.mark.parametrize(
    "model",
    [transformer(OtherProject), transformer(output_bias=True), transformer(scale_output=True)],
    ids=["class", "bias", "scale"],
)
def test_a_model_whose_logits_are_not_products_alone_offers_no_matrix(model: Transformer) -> None:
    assert model.output_matrix() is None
    with torch.autocast("cpu", torch.bfloat16):
        loss, whole = (LabelSmoothed(LabelSmoothedConfig(chunk=n))(model, BATCH).loss for n in (None, 0))
    assert loss.item() == pytest.approx(whole.item(), rel=1e-3)


class Focal(LabelSmoothed):
    """-(1 - p)^2 log p, and its gradient"""

    def sums(self, logits: Tensor, at: Positions) -> TokenSums:
        log_p = logits.log_softmax(-1, dtype=torch.float32).gather(-1, at.target[:, None])[:, 0]
        loss = -((1 - log_p.exp()) ** 2) * log_p
        return TokenSums((loss * at.counts).sum(), (-log_p.detach() * at.counts).sum())

    def sums_and_gradient(self, logits: Tensor, at: Positions) -> tuple[TokenSums, Tensor]:
        with torch.enable_grad():
            logits = logits.detach().requires_grad_()
            sums = self.sums(logits, at)
            (gradient,) = torch.autograd.grad(sums.loss, logits)
        return TokenSums(sums.loss.detach(), sums.nll), gradient


def focal_function() -> LabelSmoothed:
    """The same, of a method of one instance"""
    loss, focal = LabelSmoothed(LabelSmoothedConfig()), Focal(LabelSmoothedConfig())
    loss.sums_and_gradient = focal.sums_and_gradient  # type: ignore[method-assign]
    return loss


@pytest.mark.parametrize("loss", [Focal(LabelSmoothedConfig()), focal_function()], ids=["class", "instance"])
def test_a_loss_that_is_defined_anew_is_computed_from_logits(loss: LabelSmoothed) -> None:
    model = transformer()
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = loss(model, BATCH).loss, Focal(LabelSmoothedConfig(chunk=0))(model, BATCH).loss
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)


def test_the_reference_computes_no_sums() -> None:
    """Without functions in C logits are computed by `project`."""
    at, matrix = drawn(40, 50)
    assert operators.output_loss.reference(at.hidden, matrix, at.target, at.counts, 0.9, 0.002) is None
