"""Micro-batches of one rank and of several, too little memory, seeds, and captured steps."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.one_weight_model import PAIRS, VOCAB, Weight
from s2s.backend.selection import BackendSelection, Decision
from s2s.config import TrainConfig
from s2s.data.packing import pack
from s2s.distributed import World
from s2s.distributed.sharding import OneProcess
from s2s.errors import PluginError
from s2s.objective import Objective, Sums
from s2s.training import train_step as module
from s2s.training.batch_plan import BatchPlan
from s2s.training.micro_batches import n_positions_of, n_tokens_of
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.batch import Batch
    from s2s.model import Seq2Seq


class Total(Objective):
    """w for each target token; more than `limit` pairs at once do not fit into memory."""

    extras = ("pairs",)

    def __init__(self, limit: int = 99, normaliser: Any = torch.tensor) -> None:
        self.limit, self.normaliser = limit, normaliser
        self.seeds: list[int] = []

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        self.seeds.append(torch.initial_seed())
        if len(batch.src) > self.limit:
            raise MemoryError
        loss = (model(*batch.inputs)[..., 0] * ~batch.tgt_pad).sum()
        return Sums(loss, self.normaliser(float(batch.n_tokens)), {"pairs": float(len(batch.src))})


class Noting(OneProcess):
    """Notes which micro-batch of an update is the last."""

    def __init__(self, *, needs_every_rank: bool = False) -> None:
        self.needs_every_rank = needs_every_rank  # type: ignore[misc]
        self.last: list[bool] = []

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        self.last.append(last)
        yield


def update(objective: Objective | None = None, world: World | None = None, **changes: Any) -> TrainStep:
    model = Weight(1.0)
    config = TrainConfig(**{"tokens": 100, "micro_tokens": None, **changes.pop("train", {})})
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    given = (config, 3, VOCAB, model, objective or Total(), optimizer, lambda _: 1.0, world or World())
    return TrainStep(*given, **changes)  # type: ignore[arg-type]


def test_sums_are_those_of_all_micro_batches() -> None:
    step = update(train={"micro_tokens": 4})
    sums = step._gradient([PAIRS[:1], [], PAIRS[1:]], [], 1, 0, 12)
    assert sums is not None
    assert sums.values.tolist() == [12.0, 12.0, 4.0, 12.0, 2 * 1 + 3 * 3 + 3 + 4 * 3, 0.0]
    assert step.model.w.grad is not None
    assert step.model.w.grad.item() == pytest.approx(1.0)


def test_the_last_micro_batch_of_a_rank_is_known() -> None:
    strategy = Noting()
    update(sharding=strategy)._gradient([[pair] for pair in PAIRS], [], 1, 0, 12)
    assert strategy.last == [False, False, False, True]
    other = Noting()
    update(world=World(rank=1, size=2), sharding=other)._gradient([[pair] for pair in PAIRS], [], 1, 0, 12)
    assert other.last == [False, True]


@pytest.mark.parametrize(("every_rank", "n_parts"), [(True, 1), (False, 0)])
def test_a_rank_without_pairs_takes_part_where_every_rank_is_needed_and_adds_nothing(
    every_rank: bool, n_parts: int
) -> None:
    strategy, objective = Noting(needs_every_rank=every_rank), Total()
    step = update(objective, World(rank=1, size=2), sharding=strategy)
    sums = step._gradient([PAIRS[:2], []], [], 1, 0, 5)
    assert sums is not None
    assert sums.values.tolist() == [0.0] * 6
    assert strategy.last == [True] * n_parts
    assert step.model.w.grad is None or step.model.w.grad == 0.0


@pytest.mark.parametrize("n_pairs", [2, 3, 4])
def test_parts_are_halved_until_they_fit_down_to_a_single_pair(n_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch.accelerator, "empty_cache", lambda: pytest.fail("there is no GPU whose cache could be emptied")
    )
    step = update(Total(limit=1))
    result = step(PAIRS[:n_pairs], 1)
    assert result.n_micro_batches == 4
    assert result.extras == {"pairs": n_pairs / n_tokens_of(PAIRS[:n_pairs])[1]}
    with pytest.raises(MemoryError):
        update(Total(limit=0))(PAIRS[:1], 1)


def test_a_loss_that_is_no_number_changes_nothing_though_its_gradient_is_one() -> None:
    class Spoilt(Total):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            sums = super().__call__(model, batch)
            return replace(sums, loss=sums.loss + float("nan"))

    step = update(Spoilt())
    result = step(PAIRS, 1)
    assert not result.is_finite
    assert result.gnorm == pytest.approx(1.0)
    assert step.model.w.item() == 1.0


@pytest.mark.parametrize("times", [0.5, 1.0, 2.0])
def test_the_gradient_is_divided_by_what_the_objective_counts(times: float) -> None:
    step = update(Total(normaliser=lambda n: torch.tensor(times * n)))
    assert step(PAIRS, 1).gnorm == pytest.approx(1 / times)
    assert step.model.w.item() == pytest.approx(1 - 1 / times)


def test_packed_batches_of_any_shape_are_as_long_as_their_tokens() -> None:
    step = update(backend=replace(BackendSelection(), packed=Decision(True, "a test")))
    assert step.micro_batches.batch(PAIRS).src.shape == pack(PAIRS, VOCAB, None).src.shape


def test_the_pairs_that_a_rank_reads_are_those_of_its_own_micro_batches() -> None:
    ranks = [update(world=World(rank=rank, size=2), train={"micro_tokens": 5}) for rank in (0, 1)]
    first, second = (rank.micro_batches.local(PAIRS) for rank in ranks)
    assert len(first) == len(second) == 2
    assert [pair for parts in zip(first, second, strict=True) for part in parts for pair in part] == PAIRS


def test_where_every_rank_is_needed_too_little_memory_is_an_error() -> None:
    with pytest.raises(MemoryError):
        update(Total(limit=1), sharding=Noting(needs_every_rank=True))(PAIRS, 1)


def test_another_error_is_raised_as_it_is() -> None:
    class Wrong(Total):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        update(Wrong())(PAIRS, 1)


@pytest.mark.parametrize("n_failures", [0, 1, 2])
def test_a_rank_that_has_memory_follows_one_that_has_not(n_failures: int) -> None:
    """The other one fails so often; what was computed meanwhile does not change the weights."""
    weights = list[float]()

    class Two(World):
        def all_reduce(self, values: Tensor) -> Tensor:
            weights.append(step.model.w.item())
            other = torch.zeros_like(values)
            if len(weights) <= n_failures:
                other[0], other[-1] = torch.nan, 1
            return values + other

    step = update(world=Two(size=2))
    result = step(2 * PAIRS, 1)
    assert result.is_finite
    assert result.n_micro_batches == 2 * 2**n_failures
    assert weights == [1.0] * (n_failures + 1)
    assert step.model.w.item() != 1.0


class WithGradients(OneProcess):
    """As ranks, of which one that has failed has gradients of 0."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def reduce_gradients(self) -> None:
        for p in self.step().parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad


@pytest.mark.parametrize("n_before", [0, 1])
def test_too_little_memory_of_a_rank_leaves_the_scale_of_the_loss(n_before: int) -> None:
    """In the first update of a run, and in a later one."""
    world, objective = World(size=2), Total()
    step = update(objective, world, train={"precision": "fp16"}, sharding=WithGradients(lambda: step))
    for number in range(n_before):
        step(PAIRS, number + 1)
    objective.limit = 1
    before = step.scaler.get_scale()
    result = step(PAIRS, n_before + 1)
    assert result.is_finite
    assert result.n_micro_batches == 4
    assert step.scaler.get_scale() == before


def test_a_rank_that_has_too_little_memory_says_so() -> None:
    sums = update(Total(limit=1), world=World(size=2))._gradient([PAIRS[:2], PAIRS[2:]], [], 1, 0, 12)
    assert sums is not None
    assert (sums.loss.isnan().item(), sums.n_failed.item()) == (True, 1.0)


def test_random_numbers_depend_on_seed_step_and_micro_batch_as_they_always_did() -> None:
    """A run that another version of s2s began goes on with the same draws."""
    objective = Total()
    step = update(objective, train={"micro_tokens": 4})
    step([([4], [5])] * 4, 7)
    assert objective.seeds == [(3 * 1_000_003 + 7) * 65_537 + part for part in (0, 1)]
    objective.seeds.clear()
    step.seed = 2**62
    step(PAIRS[:1], 5)
    assert objective.seeds[0] == ((2**62 * 1_000_003 + 5) * 65_537) % 2**64


def test_freed_memory_is_released_every_hundred_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    released, step, at = list[int](), update(), [0]
    monkeypatch.setattr(module, "release_freed_memory", lambda: released.append(at[0]))
    for at[0] in (1, 99, 100, 101, 200):
        step(PAIRS, at[0])
    assert released == [100, 200]


@pytest.mark.parametrize(("precision", "scales"), [("fp32", False), ("bf16", False), ("fp16", True)])
def test_only_fp16_needs_a_scaled_loss(precision: str, scales: bool) -> None:
    assert update(train={"precision": precision}).scaler.is_enabled() is scales


@pytest.mark.parametrize(("limit", "sufficed"), [(99, True), (1, False)])
def test_a_trial_measures_a_plan_and_leaves_nothing_behind(limit: int, sufficed: bool) -> None:
    step, asked = update(Total(limit)), list[int]()
    before = step.config, step.check_memory
    assert step.trial(PAIRS, BatchPlan(50, 8, asked.append)) is sufficed
    assert (step.config, step.check_memory) == before
    assert asked[0] > 0, "memory is checked before each micro-batch"
    assert (step.model.w.grad, step.model.w.item(), step.split_factor) == (None, 1.0, 1)


def test_a_plan_is_followed_from_now_on() -> None:
    step, asked = update(), list[int]()
    step.apply_plan(BatchPlan(50, 8, asked.append))
    assert (step.config.tokens, step.config.micro_tokens) == (50, 8)
    step(PAIRS, 1)
    assert asked == [6, 8], "positions of the longer side of each of both"


def test_tokens_and_positions_count_ends() -> None:
    assert n_tokens_of(PAIRS) == (10, 12)
    assert n_positions_of(PAIRS) == (12, 16)
    assert n_positions_of([([], [])] * 3) == (3, 3)
    assert n_positions_of([]) == (0, 0)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> BackendSelection:
    """A backend that captures steps, where a capture only keeps the function."""

    def capture(function: Any) -> tuple[Any, Tensor]:
        result = function().clone()
        return lambda: result.copy_(function()), result

    monkeypatch.setattr("s2s.backend.core_devices.CPU.capture", lambda _, function: capture(function))
    return replace(BackendSelection(), cuda_graph=Decision(True, "a test"))


def test_captured_steps_compute_the_same_with_gradients_in_place(captured: BackendSelection) -> None:
    plain, step, into = update(train={"micro_tokens": 4}), update(backend=captured), list[bool]()
    step.config = plain.config
    zero_grad = step.optimizer.zero_grad

    def noted(set_to_none: bool = True) -> None:
        into.append(set_to_none)
        zero_grad(set_to_none)

    step.optimizer.zero_grad = noted  # type: ignore[method-assign]
    for number in (1, 2):
        assert step(PAIRS, number) == plain(PAIRS, number)
        assert step.model.w.grad is not None
    assert step.trial(PAIRS, BatchPlan(100))
    assert into == [False, False, False, False]
    assert (step.graphs is None, plain.graphs is None) == (False, True)


def test_after_too_little_memory_steps_are_captured_anew(captured: BackendSelection) -> None:
    step = update(Total(limit=2), backend=captured)
    graphs, before = step.graphs, step.optimizer_step
    assert step(PAIRS, 1).n_micro_batches == 2
    assert step.graphs is not None
    assert step.graphs is not graphs
    assert step.optimizer_step is not before


def test_a_captured_step_needs_a_normaliser_that_is_a_tensor(captured: BackendSelection) -> None:
    with pytest.raises(PluginError, match=r"must return a normaliser that is a tensor"):
        update(Total(normaliser=float), backend=captured)(PAIRS, 1)
    assert update(Total(normaliser=float))(PAIRS, 1).is_finite


@pytest.mark.parametrize(
    ("graphs", "supported", "kind"), [(True, True, "captured"), (True, False, "plain"), (False, True, "plain")]
)
def test_the_optimizers_step_is_captured_with_the_rest_if_it_can_be(
    captured: BackendSelection, monkeypatch: pytest.MonkeyPatch, graphs: bool, supported: bool, kind: str
) -> None:
    class Captured:
        supports = staticmethod(lambda optimizer: supported)

        def __init__(self, *arguments: Any) -> None:
            self.arguments = arguments

    monkeypatch.setattr(module, "CUDAGraphOptimizerStep", Captured)
    step = update(backend=captured if graphs else BackendSelection())
    assert isinstance(step.optimizer_step, Captured) is (kind == "captured")
