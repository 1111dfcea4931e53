"""One update against the gradient computed in one piece, in float64."""

from __future__ import annotations

import copy
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from s2s.backend.selection import Decision
from s2s.batch import Batch, make_batch
from s2s.config import TrainConfig
from s2s.data.packing import Capacity, pack
from s2s.distributed import World
from s2s.errors import PluginError
from s2s.model import Memory, Seq2Seq
from s2s.objective import Objective, Sums
from s2s.task import Vocab
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VOCAB = Vocab(src=12, tgt=12, joint=True)


class Bag(Seq2Seq):
    """The mean of the source and the last symbol decide on the next."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB.src, 8)
        self.out = nn.Linear(8, VOCAB.tgt)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(self.embedding(src).masked_fill(pad[..., None], 0.0), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        mean = memory.hidden.sum(1) / (~memory.pad).sum(1, keepdim=True)
        return self.embedding(tgt) + mean[:, None]

    def project(self, hidden: Tensor) -> Tensor:
        return self.out(hidden)


class CrossEntropy(Objective):
    """Per target token; `before` sees each micro-batch."""

    extras = ("nll",)

    def __init__(self, before: Callable[[Batch], object] = lambda _: None) -> None:
        self.before = before

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        self.before(batch)
        logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
        nll = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=VOCAB.pad, reduction="sum"
        )
        return Sums(nll, batch.n_tokens, {"nll": nll})


def pairs(n: int) -> list[tuple[list[int], list[int]]]:
    """n pairs of 1 to 6 random symbols a side."""
    draw = random.Random(3)
    side = lambda: [draw.randrange(4, 12) for _ in range(draw.randint(1, 6))]  # noqa: E731
    return [(side(), side()) for _ in range(n)]


def train_step(model: Seq2Seq, **train: object) -> TrainStep:
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    return TrainStep(TrainConfig(**train), 1, VOCAB, model, CrossEntropy(), optimizer, lambda step: 0.5, World())  # type: ignore[arg-type]


def parts_of(update: TrainStep, batch: list[tuple[list[int], list[int]]]) -> list[Batch]:
    """The micro-batches that an update learns from."""
    seen: list[Batch] = []

    update.objective = CrossEntropy(seen.append)
    update(batch, step=1)
    return seen


@pytest.fixture
def model() -> Bag:
    torch.manual_seed(0)
    return Bag()


@pytest.mark.parametrize("micro_tokens", [None, 80, 40, 7, 1])
def test_the_update_is_the_same_for_any_number_of_micro_batches(model: Bag, micro_tokens: int | None) -> None:
    batch = pairs(32)
    exact = copy.deepcopy(model).double()
    whole = make_batch(batch, VOCAB)
    (CrossEntropy()(exact, whole).loss / whole.n_tokens).backward()

    result = train_step(model, micro_tokens=micro_tokens)(batch, step=1)

    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        assert torch.allclose(p.double(), q - 0.5 * q.grad, atol=1e-6)
    norm = math.sqrt(sum(float(q.grad.square().sum()) for q in exact.parameters()))
    assert result.gnorm == pytest.approx(norm, rel=1e-5)
    assert result.n_tokens == whole.n_tokens
    assert result.n_src_tokens == whole.n_src_tokens


@pytest.mark.parametrize("micro_tokens", [None, 40])
def test_padding_is_the_share_of_places_that_hold_no_symbol(model: Bag, micro_tokens: int | None) -> None:
    update = train_step(model, micro_tokens=micro_tokens)
    parts = parts_of(update, pairs(32))
    padding = sum(int(part.src_pad.sum() + part.tgt_pad.sum()) for part in parts)
    places = sum(part.src_pad.numel() + part.tgt_pad.numel() for part in parts)
    assert update(pairs(32), step=1).padding == pytest.approx(padding / places)
    assert padding > 0


def test_micro_batches_of_like_lengths_hold_what_one_device_may_take(model: Bag) -> None:
    """Padding counts: a device holds it, too."""
    batch = sorted(pairs(300), key=lambda pair: (len(pair[1]), len(pair[0])))
    like = [pair for pair in batch if len(pair[1]) == 4]
    parts = parts_of(train_step(model, micro_tokens=60), like)
    assert sum(len(part.src) for part in parts) == len(like)
    assert max(max(part.src.numel(), part.tgt_out.numel()) for part in parts) <= 1.1 * 60


def test_any_seed_will_do(model: Bag) -> None:
    update = train_step(model)
    update.seed = 2**63 - 1
    assert update(pairs(4), step=300_000).is_finite


class Noisy(torch.optim.SGD):
    """Moves each weight by noise."""

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            p.add_(torch.randn_like(p))


@pytest.mark.parametrize("rank", [0, 1])
def test_an_optimizer_draws_the_same_numbers_on_all_ranks(model: Bag, rank: int) -> None:
    """Otherwise their weights would be different ones from then on."""
    moved = []
    for world in (World(), World(rank=rank, size=2)):
        own = copy.deepcopy(model)
        update = replace(train_step(own), optimizer=Noisy(own.parameters(), 0.0), world=world)
        update(pairs(8), step=3)
        moved.append([p.tolist() for p in own.parameters()])
    assert moved[0] == moved[1] != [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda x: x.sum()[None], r"loss \[1\], requires_grad=True"),
        (lambda x: x, r"loss \[64\], requires_grad=True"),
        (lambda x: x.sum().detach(), r"loss \[\], requires_grad=False"),
        (lambda _: 2.0, "loss 2.0"),
    ],
    ids=["a row", "no sum", "no gradient", "a float"],
)
def test_a_loss_that_is_no_sum_with_a_gradient_is_refused(model: Bag, loss: Any, found: str) -> None:
    class Wrong(Objective):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            return Sums(loss(model.project(model(batch.src, batch.src_pad, batch.tgt_in)).flatten()[:64]), 1)

    with pytest.raises(PluginError, match=f"^the objective returned as {found}: expected a tensor"):
        replace(train_step(model), objective=Wrong())(pairs(8), step=1)


def test_what_is_no_sums_is_refused(model: Bag) -> None:
    class Nothing(Objective):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Any:
            pass

    with pytest.raises(PluginError, match=r"^the objective returned NoneType: expected an s2s.Sums$"):
        replace(train_step(model), objective=Nothing())(pairs(8), step=1)


class Weighted(CrossEntropy):
    """Multiplies the loss by a parameter of its own."""

    def __init__(self, own: Any, weight: Tensor) -> None:
        super().__init__()
        self.own, self.weight = own, lambda: weight

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        sums = super().__call__(model, batch)
        return replace(sums, loss=sums.loss * self.weight().sum())


@pytest.mark.parametrize(
    "within",
    [lambda own: own.weight, lambda own: own, lambda own: {"heads": [own]}, lambda own: Weighted(own, own.weight)],
    ids=["attribute", "module", "collection", "objective"],
)
def test_parameters_of_an_objective_that_no_optimizer_would_train_are_refused(model: Bag, within: Any) -> None:
    own = nn.Linear(2, 1)
    with pytest.raises(PluginError, match=r"^Weighted has parameters of its own that would not be trained"):
        replace(train_step(model), objective=Weighted(within(own), own.weight))(pairs(8), step=1)


def test_an_objective_may_hold_models_that_are_not_trained(model: Bag) -> None:
    own = nn.Linear(2, 1)  # requires a gradient and gets none
    replace(train_step(model), objective=Weighted([own, model], own.weight.detach()))(pairs(8), step=1)


@pytest.mark.parametrize("normaliser", [0.0, -5.0, math.inf, math.nan])
def test_an_update_that_cannot_be_divided_changes_nothing(model: Bag, normaliser: float) -> None:
    class Divided(CrossEntropy):
        def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
            sums = super().__call__(model, batch)
            return replace(sums, normaliser=normaliser)

    before = copy.deepcopy(model.state_dict())
    assert not replace(train_step(model), objective=Divided())(pairs(8), step=1).is_finite
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_clipping_scales_the_whole_gradient(model: Bag) -> None:
    before = [p.detach().clone() for p in model.parameters()]
    result = train_step(model, clip=0.01)(pairs(8), step=1)
    moves = [(p.detach() - b).square().sum() for p, b in zip(model.parameters(), before, strict=True)]
    moved = math.sqrt(float(sum(moves)))
    assert result.gnorm > 0.01
    assert moved == pytest.approx(0.5 * 0.01, rel=1e-3)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(model: Bag, poison: float) -> None:
    before = copy.deepcopy(model.state_dict())
    model.out.bias.register_hook(lambda g: g * poison)
    result = train_step(model)(pairs(4), step=1)
    assert not result.is_finite
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_overflow_in_fp16_lowers_the_scale_and_changes_nothing(model: Bag) -> None:
    update = train_step(model, precision="fp16")
    before, scale = copy.deepcopy(model.state_dict()), update.scaler.get_scale()
    handle = model.out.bias.register_hook(lambda g: g * math.inf)
    assert not update(pairs(4), step=1).is_finite
    assert update.scaler.get_scale() == scale / 2
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    handle.remove()
    assert update(pairs(4), step=2).is_finite


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_comes_near_the_full_one_and_keeps_fp32_weights(model: Bag, precision: str) -> None:
    full = copy.deepcopy(model)
    train_step(full)(pairs(16), step=1)
    train_step(model, precision=precision)(pairs(16), step=1)
    for p, q in zip(model.parameters(), full.parameters(), strict=True):
        assert p.dtype == torch.float32
        assert torch.allclose(p, q, atol=2e-3)


def test_dropout_depends_on_the_step_and_not_on_what_ran_before(model: Bag) -> None:
    draws = []

    update = train_step(model)
    update.objective = CrossEntropy(lambda _: draws.append(torch.rand(3).tolist()))
    for step in (1, 2, 1):
        torch.rand(step)
        update(pairs(4), step=step)
    assert draws[0] == draws[2] != draws[1]


def sized(limit: int) -> Objective:
    """An objective for a device whose memory holds so many positions of a side."""

    def check(batch: Batch) -> None:
        if max(batch.src.numel(), batch.tgt_in.numel()) > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")

    return CrossEntropy(check)


def test_too_little_memory_makes_more_micro_batches_and_the_same_gradient(model: Bag) -> None:
    batch, other = pairs(32), copy.deepcopy(model)
    expected = train_step(other)(batch, step=1)
    update = train_step(model)
    update.objective = sized(60)
    result = update(batch, step=1)
    assert result.n_micro_batches > 1
    assert result.loss == pytest.approx(expected.loss)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-6)
    assert update(batch, step=2).n_micro_batches == result.n_micro_batches, "it is not tried anew at every update"


def test_too_little_memory_for_a_single_pair_is_an_error(model: Bag) -> None:
    update = train_step(model)
    update.objective = sized(0)
    with pytest.raises(torch.OutOfMemoryError):
        update(pairs(4), step=1)


class Counted(Bag):
    """Says how many operations its one product has."""

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        return 2.0 * len(tgt) * max(tgt) * self.out.in_features * self.out.out_features


def test_an_update_has_the_operations_of_a_forward_and_a_backward_pass() -> None:
    """As torch counts them: of a product, one in forward and two in backward; all pairs have one length."""
    batch = [([4, 5], [6, 7, 8]) for _ in range(5)]
    with FlopCounterMode(display=False) as counter:
        result = train_step(Counted())(batch, step=1)
    assert result.flops == counter.get_total_flops() > 0


def test_batches_are_packed_into_one_shape_where_the_backend_has_one(model: Bag) -> None:
    update = train_step(model)
    assert update.micro_batches.capacity(500) is None
    update.backend = replace(update.backend, max_len=70)
    assert update.micro_batches.capacity(500) == Capacity(tokens=500, max_len=70)


@pytest.mark.parametrize(
    ("n_ranks", "micro_tokens", "split_factor", "n_parts"),
    [(1, None, 1, 1), (2, None, 1, 2), (2, 100, 1, 2), (2, 99, 1, 2), (2, 49, 1, 4), (1, 30, 1, 4), (2, 30, 2, 8)],
)
def test_the_number_of_micro_batches_of_one_shape_follows_the_configuration(
    model: Bag, n_ranks: int, micro_tokens: int | None, split_factor: int, n_parts: int
) -> None:
    """As many as 100 tokens a side need, and as many on every rank; whatever the batch."""
    update = train_step(model, tokens=100, micro_tokens=micro_tokens)
    update.backend = replace(update.backend, max_len=20, packed=Decision(True, "a test"))
    update.world, update.split_factor = World(size=n_ranks), split_factor
    for n in (1, 30):
        assert update.micro_batches.count(pairs(n)) == n_parts
    short = [([4], [5])]
    assert (
        update.micro_batches.batch(short).src.shape
        == pack(short, VOCAB, Capacity(math.ceil(100 / n_parts), 20)).src.shape
    )


def test_packed_batches_count_tokens_and_padded_ones_positions(model: Bag) -> None:
    batch = [([4], [4]), ([5] * 9, [5]), ([6], [6] * 4)]  # with eos: 14 and 9 tokens, 30 and 15 positions
    update = train_step(model, micro_tokens=5)
    assert update.micro_batches.count(batch) == 6
    update.backend = replace(update.backend, packed=Decision(True, "a test"))
    assert update.micro_batches.count(batch) == 3
