"""The contract of an objective: sums, normalisers, extras, and what breaks it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.one_weight_model import PAIRS, VOCAB, Weight
from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import PluginError
from s2s.objective import Auxiliary, Mean, Objective, Sums, WithAuxiliary, rows_without_eos
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.model import Seq2Seq


class Lengths(Objective):
    """Per sentence, or per source token: w times the number of target tokens."""

    extras = ("src", "tokens_a_sentence")

    def __init__(self, count: Any = lambda batch: len(batch.src), **changed: object) -> None:
        self.count, self.changed = count, changed

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        loss = (model(*batch.inputs)[..., 0] * ~batch.tgt_pad).sum()
        extras = {"src": batch.n_src_tokens, "tokens_a_sentence": Mean(batch.n_tokens, len(batch.src))}
        return Sums(loss, self.count(batch), {**extras, **self.changed})  # type: ignore[dict-item]


def train_step(objective: Objective, micro_tokens: int | None = None) -> TrainStep:
    model = Weight()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    config = TrainConfig(tokens=100, micro_tokens=micro_tokens)
    return TrainStep(config, 1, VOCAB, model, objective, optimizer, lambda _: 1.0, World())


@pytest.mark.parametrize("micro_tokens", [None, 6, 1])
def test_the_sum_is_divided_by_the_objectives_own_normaliser(micro_tokens: int | None) -> None:
    """12 target tokens with eos, in 4 sentences that have 10 source tokens."""
    step = train_step(Lengths(), micro_tokens)
    result = step(PAIRS, 1)
    assert step.model.w.item() == pytest.approx(-12 / 4)
    assert result.gnorm == pytest.approx(12 / 4)
    assert result.extras == {"src": 10 / 4, "tokens_a_sentence": 12 / 4}
    step = train_step(Lengths(lambda batch: batch.n_src_tokens), micro_tokens)
    step(PAIRS, 1)
    assert step.model.w.item() == pytest.approx(-12 / 10)


def test_an_update_whose_normaliser_is_zero_is_skipped() -> None:
    step = train_step(Lengths(lambda _: 0))
    result = step(PAIRS, 1)
    assert not result.is_finite
    assert step.model.w.item() == 0


def test_extras_that_were_not_declared_are_an_error() -> None:
    with pytest.raises(PluginError, match=r"returned the extras \['more', 'src', 'tokens_a_sentence'\]"):
        train_step(Lengths(more=1))(PAIRS, 1)


def test_a_number_as_normaliser_cannot_be_captured() -> None:
    step = train_step(Lengths())
    step.graphs = SimpleNamespace()  # type: ignore[assignment]
    with pytest.raises(PluginError, match="must return a normaliser that is a tensor"):
        step._backward(step.micro_batches.batch(PAIRS), torch.ones(()))


def test_rows_come_without_eos_and_padding() -> None:
    batch = train_step(Lengths()).micro_batches.batch(PAIRS)
    assert rows_without_eos(batch.src, batch.src_pad) == [src for src, _ in PAIRS]
    assert rows_without_eos(batch.tgt_out, batch.tgt_pad) == [tgt for _, tgt in PAIRS]


def test_an_objective_promises_nothing_that_it_does_not_declare() -> None:
    assert (Objective.supports_packing, Objective.supports_cuda_graph, Objective.extras, Objective.valid_extras) == (
        False,
        False,
        (),
        None,
    )


def test_sums_are_stacked_in_the_order_of_their_names_with_the_normaliser_where_there_is_no_count() -> None:
    loss = torch.tensor(2.0, requires_grad=True)
    sums = Sums(loss, 4, {"b": torch.tensor(3.0), "a": Mean(torch.tensor(5.0), 6)})
    stacked = sums.stack(("a", "b"))
    assert stacked.tolist() == [2, 4, 5, 6, 3, 4]
    assert (stacked.dtype, stacked.requires_grad) == (torch.float64, False)


@pytest.mark.parametrize(
    ("value", "found"),
    [(torch.ones(2), r"as b a tensor \[2\]"), (Mean(1.0, torch.ones(1)), r"as b a tensor \[1\]"), ("x", "as b 'x'")],
    ids=["row", "count", "text"],
)
def test_what_is_no_number_is_refused_by_its_name(value: Any, found: str) -> None:
    with pytest.raises(PluginError, match=f"^the objective returned {found}: expected one number"):
        Sums(torch.tensor(2.0), 4, {"b": value}).stack(("b",))
    with pytest.raises(PluginError, match=r"returned as normaliser a tensor \[3\]"):
        Sums(torch.tensor(2.0), torch.ones(3)).stack(())


class Recording(Weight):
    """A model with a loss of its own, such as that of a mixture of experts."""

    auxiliary = ("balance",)
    recorded = False

    def record_auxiliary(self) -> None:
        self.recorded = True

    def take_auxiliary(self) -> Auxiliary:
        assert self.recorded
        self.recorded = False
        return Auxiliary(torch.tensor(0.5), {"balance": Mean(7.0, 2.0)})


@pytest.mark.parametrize(("declared", "expected"), [(None, ("src", "tokens_a_sentence")), (("src",), ("src",))])
def test_a_models_own_loss_is_added_to_the_objective_and_left_out_of_validation(
    declared: tuple[str, ...] | None, expected: tuple[str, ...]
) -> None:
    own, model = Lengths(), Recording()
    own.valid_extras, own.supports_packing = declared, True
    both = WithAuxiliary(own, model)
    assert (both.extras, both.valid_extras) == (("src", "tokens_a_sentence", "balance"), expected)
    assert both.supports_packing
    batch = make_batch(PAIRS, VOCAB)
    alone, sums = own(model, batch), both(model, batch)
    assert sums.loss.item() == alone.loss.item() + 0.5
    assert sums.normaliser == alone.normaliser
    assert sums.extras == {**alone.extras, "balance": Mean(7.0, 2.0)}
    assert not model.recorded
