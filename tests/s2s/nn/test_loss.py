"""The loss against its definition written out in float64, symbol by symbol."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from s2s.batch import Batch, make_batch
from s2s.errors import ConfigError
from s2s.model import Memory, Seq2Seq
from s2s.nn import LabelSmoothedConfig
from s2s.nn.chunked_loss import Positions
from s2s.nn.loss import LabelSmoothed, target_log_probs
from s2s.plugin import load_plugins
from s2s.task import Vocab

VOCAB = Vocab(src=11, tgt=11)
PAIRS = [([4, 5], [6, 7, 8, 9]), ([5], [10]), ([9, 9, 9], [4, 4, 5])]


class Bag(Seq2Seq):
    """A model small enough to check by hand: a symbol's vector plus the mean of the source's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.out = nn.Linear(5, 11)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(self.embedding(src).masked_fill(pad[..., None], 0.0), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return (self.embedding(tgt) + memory.hidden.mean(1, keepdim=True)).tanh()

    def project(self, hidden: Tensor) -> Tensor:
        return self.out(hidden)


class Whole(Bag):
    """The same, but `decode` returns logits."""

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return self.out(super().decode(tgt, memory))

    def project(self, hidden: Tensor) -> Tensor:
        return hidden


def model_and_batch(kind: type[Bag] = Bag) -> tuple[Bag, Batch]:
    torch.manual_seed(3)
    return kind(), make_batch(PAIRS, VOCAB)


def label(definition: str, eps: float, y: int, v: int) -> float:
    """Probability that the smoothed label of `y` gives to `v`, from the definitions' words."""
    if definition == "uniform":
        return (1 - eps) * (v == y) + eps / VOCAB.tgt
    return 1 - eps if v == y else eps / (VOCAB.tgt - 1)


def by_hand(model: Bag, batch: Batch, definition: str, eps: float) -> tuple[Tensor, Tensor]:
    """Loss and nll: loops over sentences, symbols and vocabulary."""
    model = model.double()
    logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    loss, nll = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for row, (_, tgt) in zip(logits.log_softmax(-1), PAIRS, strict=True):
        for log_p, y in zip(row, [*tgt, VOCAB.eos], strict=False):
            q = [label(definition, eps, y, v) for v in range(VOCAB.tgt)]
            loss = loss - sum(q[v] * log_p[v] for v in range(VOCAB.tgt))
            if definition == "t2t":
                loss = loss + sum(p * math.log(p) for p in q if p)
            nll = nll - log_p[y]
    return loss, nll


def gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad.double() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("kind", [Bag, Whole])
@pytest.mark.parametrize("chunk", [None, 0, 1, 4, 15, 100])
@pytest.mark.parametrize(
    ("definition", "eps"), [("others", 0.1), ("uniform", 0.1), ("t2t", 0.1), ("others", 0.0), ("t2t", 0.0)]
)
def test_loss_and_gradients_are_the_definitions(
    definition: Any, eps: float, chunk: int | None, kind: type[Bag]
) -> None:
    model, batch = model_and_batch(kind)
    out = LabelSmoothed(LabelSmoothedConfig(eps=eps, definition=definition, chunk=chunk))(model, batch)
    (3 * out.loss).backward()
    found = gradients(model)
    model.zero_grad()
    loss, nll = by_hand(model, batch, definition, eps)
    (3 * loss).backward()
    assert out.loss.item() == pytest.approx(loss.item(), abs=1e-5)
    assert out.extras["nll"].item() == pytest.approx(nll.item(), abs=1e-5)
    for gradient, expected in zip(found, gradients(model), strict=True):
        assert torch.allclose(gradient, expected, atol=1e-5)


class Recording(Bag):
    """Records of how many positions logits are computed; its states are on any device."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.device, self.sizes = device, list[int]()

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return super().decode(tgt, memory).to(self.device)

    def project(self, hidden: Tensor) -> Tensor:
        self.sizes.append(len(hidden))
        return super().project(hidden if hidden.is_cpu else torch.zeros(hidden.shape))


@pytest.mark.parametrize(("device", "chunk", "sizes"), [
    ("cpu", None, [256, 256, 256, 256, 176]), ("meta", None, [1024, 176]), ("cpu", 0, [1200]), ("cpu", 900, [900, 300]),
])  # fmt: skip
def test_logits_are_held_of_as_many_positions_as_asked_for(device: str, chunk: int | None, sizes: list[int]) -> None:
    model = Recording(device)
    with torch.no_grad():
        LabelSmoothed(LabelSmoothedConfig(chunk=chunk))(model, make_batch([([4], [5] * 599), ([4], [6] * 599)], VOCAB))
    assert model.sizes == sizes


def test_a_compiled_step_computes_logits_again_in_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile cannot trace a gradient inside the forward pass; it holds the logits of a chunk all the same."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    model, batch = Recording(), make_batch(PAIRS, VOCAB)
    out = LabelSmoothed(LabelSmoothedConfig(chunk=4))(model, batch)
    assert model.sizes == [4, 4, 4, 3]
    out.loss.backward()
    assert sorted(model.sizes) == [3, 3, *[4] * 6]
    found = gradients(model)
    model.zero_grad()
    loss, nll = by_hand(model, batch, "others", 0.1)
    loss.backward()
    assert (out.loss.item(), out.extras["nll"].item()) == pytest.approx((loss.item(), nll.item()), abs=1e-5)
    for gradient, expected in zip(found, gradients(model), strict=True):
        assert torch.allclose(gradient, expected, atol=1e-5)


def test_without_smoothing_it_is_torchs_cross_entropy() -> None:
    model, batch = model_and_batch()
    logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in)).flatten(0, 1)
    expected = nn.functional.cross_entropy(logits, batch.tgt_out.flatten(), ignore_index=0, reduction="sum")
    out = LabelSmoothed(LabelSmoothedConfig(eps=0.0))(model, batch)
    assert torch.allclose(out.loss, expected)
    assert torch.allclose(out.extras["nll"], expected)


def test_uniform_is_torchs_label_smoothing() -> None:
    model, batch = model_and_batch()
    logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in)).flatten(0, 1)
    expected = nn.functional.cross_entropy(
        logits, batch.tgt_out.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.3
    )
    out = LabelSmoothed(LabelSmoothedConfig(eps=0.3, definition="uniform"))(model, batch)
    assert torch.allclose(out.loss, expected)


class Wrapper:
    """A model of another class, with the methods that losses need."""

    def __init__(self, model: Bag) -> None:
        self.forward, self.project, self.parameters = model.forward, model.project, model.parameters

    def __call__(self, *inputs: Any) -> Tensor:
        return self.forward(*inputs)


def test_a_model_need_not_have_an_output_matrix() -> None:
    model, batch = model_and_batch()
    loss = LabelSmoothed(LabelSmoothedConfig())
    assert torch.equal(loss.token_sums(Wrapper(model), batch).loss, loss.token_sums(model, batch).loss)


@pytest.mark.parametrize("chunk", [None, 0])
def test_padding_changes_neither_sums_nor_gradients(chunk: int | None) -> None:
    model, _ = model_and_batch()
    loss = LabelSmoothed(LabelSmoothedConfig(chunk=chunk))
    # Bag's mean counts source padding, so the sources are of one length.
    pairs = [([4, 5], [6, 7, 8, 9]), ([5, 6], [10])]
    together = loss(model, make_batch(pairs, VOCAB))
    together.loss.backward()
    found = gradients(model)
    model.zero_grad()
    alone = [loss(model, make_batch([pair], VOCAB)) for pair in pairs]
    sum(a.loss for a in alone).backward()  # type: ignore[union-attr]
    assert torch.allclose(together.loss, alone[0].loss + alone[1].loss)
    assert torch.allclose(together.extras["nll"], alone[0].extras["nll"] + alone[1].extras["nll"])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, gradients(model), strict=True))


def test_sums_are_fp32_scalars() -> None:
    model, batch = model_and_batch()
    out = LabelSmoothed(LabelSmoothedConfig())(model, batch)
    assert out.loss.shape == out.extras["nll"].shape == ()
    assert out.loss.dtype == torch.float32


def test_nll_has_no_gradient() -> None:
    model, batch = model_and_batch()
    for chunk in (None, 0):
        assert not LabelSmoothed(LabelSmoothedConfig(chunk=chunk))(model, batch).extras["nll"].requires_grad


def test_evaluation_gives_the_same_sums() -> None:
    model, batch = model_and_batch()
    loss = LabelSmoothed(LabelSmoothedConfig(chunk=4))
    training = loss(model, batch)
    with torch.inference_mode():
        evaluation = loss(model, batch)
    assert torch.equal(training.loss, evaluation.loss)
    assert torch.equal(training.extras["nll"], evaluation.extras["nll"])


def test_frozen_parameters_are_left_alone() -> None:
    model, batch = model_and_batch()
    model.out.weight.requires_grad_(False)
    LabelSmoothed(LabelSmoothedConfig())(model, batch).loss.backward()
    assert model.out.weight.grad is None
    assert model.out.bias.grad is not None


def test_gradients_accumulate_over_calls() -> None:
    model, batch = model_and_batch()
    loss = LabelSmoothed(LabelSmoothedConfig())
    loss(model, batch).loss.backward()
    once = [g.clone() for g in gradients(model)]
    loss(model, batch).loss.backward()
    assert all(torch.allclose(2 * a, b) for a, b in zip(once, gradients(model), strict=True))


def test_bf16_logits_are_summed_in_fp32() -> None:
    model, batch = model_and_batch()
    loss = LabelSmoothed(LabelSmoothedConfig())
    exact = loss(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = loss(model, batch)
    rounded.loss.backward()
    assert rounded.loss.dtype == torch.float32
    assert rounded.loss.item() == pytest.approx(exact.loss.item(), rel=1e-2)
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_a_perfect_model_has_t2t_loss_zero() -> None:
    """That is what the subtracted entropy is for."""
    loss = LabelSmoothed(LabelSmoothedConfig(eps=0.1, definition="t2t"))
    target = torch.tensor([4])
    perfect = torch.full((1, 11), math.log(0.1 / 10))
    perfect[0, 4] = math.log(0.9)
    out = loss.sums(perfect, Positions(perfect, target, torch.tensor([True])))
    assert out.loss.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("options", [{"eps": 1.0}, {"eps": -0.1}, {"chunk": -1}])
def test_impossible_options_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"objective\.{next(iter(options))}="):
        LabelSmoothedConfig(**options)


def test_it_is_registered() -> None:
    entry = load_plugins().registry.get("objective", "label_smoothed")
    objective = entry.build(entry.config(), None)
    assert isinstance(objective, LabelSmoothed)
    assert (objective.supports_packing, objective.supports_cuda_graph) == (True, True)


@pytest.mark.parametrize("chunk", [1, 5, 1024])
def test_log_probabilities_of_the_target_are_those_of_a_softmax_and_0_at_padding(chunk: int) -> None:
    model, batch = model_and_batch()
    log_probs = target_log_probs(model, batch, chunk).detach()
    hidden = model(*batch.inputs)
    again = target_log_probs(model, batch, chunk, hidden, counts=torch.ones_like(batch.tgt_pad)).detach()
    for row, (_, tgt) in enumerate(PAIRS):
        for i, token in enumerate([*tgt, VOCAB.eos]):
            expected = model.project(hidden[row, i]).double().softmax(-1)[token].log().detach()
            assert float(log_probs[row, i]) == pytest.approx(float(expected), abs=1e-5)
            assert float(again[row, i]) == pytest.approx(float(expected), abs=1e-5)
    assert log_probs.shape == batch.tgt_out.shape
    assert torch.equal(log_probs == 0, batch.tgt_pad)
    assert bool((again < 0).all()), "every position was asked for"
