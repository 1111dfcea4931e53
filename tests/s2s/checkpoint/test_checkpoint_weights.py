from __future__ import annotations

import json
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.small_checkpoints import assert_same, save, tensors
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.state_tree import flatten_state, unflatten_state
from s2s.checkpoint.weights import (
    average_weights,
    evaluated_weights,
    load_weights,
    narrow,
    size_limit,
    weighted_mean,
)
from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_tied_model_fits_its_own_weights(tmp_path: Path) -> None:
    def build() -> nn.Module:
        model = nn.ModuleDict({"embed": nn.Embedding(9, 4), "out": nn.Linear(4, 9, bias=False)})
        model["out"].weight = model["embed"].weight
        return model

    old, new = build(), build()
    path = checkpoint.save(tmp_path, "x", {"model": old.state_dict()}, {})
    load_weights(new, checkpoint.load(path).tensors["model"], path)
    assert torch.equal(new["out"].weight, old["embed"].weight)
    assert new["out"].weight is new["embed"].weight


@pytest.mark.parametrize("build", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.LBFGS])
def test_an_optimizer_continues_as_if_never_stopped(build: Callable[..., Any], tmp_path: Path) -> None:
    def run(n_steps: int, model: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(n_steps):
            x = torch.linspace(-1, 1, 12).reshape(4, 3)

            def closure(x: Tensor = x) -> Tensor:
                optimizer.zero_grad()
                loss = (model(x) ** 2).sum()
                loss.backward()
                return loss

            optimizer.step(closure)

    def fresh() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        return model, build(model.parameters(), lr=0.01, **({"momentum": 0.9} if build is torch.optim.SGD else {}))

    whole, first, second = fresh(), fresh(), fresh()
    run(6, *whole)
    run(3, *first)
    described, packed = flatten_state(first[1].state_dict())
    groups = {"model": first[0].state_dict(), "optim": packed}
    loaded = checkpoint.load(checkpoint.save(tmp_path, "x", groups, {"optim": described}))
    second[0].load_state_dict(loaded.tensors["model"])
    second[1].load_state_dict(unflatten_state(loaded.state["optim"], loaded.tensors["optim"]))
    run(3, *second)
    assert_same(second[0].state_dict(), whole[0].state_dict())


def test_unpack_is_the_inverse_of_pack() -> None:
    tree = {
        0: {"step": torch.tensor(1.0), "lr": 1e-300},
        "groups": [{"betas": (0.9, 0.98)}, None, True, -1, "x"],
    }
    described, packed = flatten_state(tree)
    assert unflatten_state(json.loads(json.dumps(described)), packed) == tree


def test_pack_refuses_what_it_could_not_give_back() -> None:
    with pytest.raises(CheckpointError, match=r"'groups\.0\.schedule' is of type builtin_function_or_method"):
        flatten_state({"groups": [{"schedule": abs}]})


def test_the_mean_is_summed_in_float64(tmp_path: Path) -> None:
    values = [1e8, 1.0, -1e8, 3.25, 0.1]  # in float32, 1.0 would be lost beside 1e8
    exact = float(sum(Fraction(torch.tensor(v).item()) for v in values) / len(values))
    paths = [
        checkpoint.save(tmp_path, f"step-{i}", {"model": {"w": torch.tensor([v]), "n": torch.tensor(i)}}, {})
        for i, v in enumerate(values)
    ]
    mean = average_weights(paths)
    assert mean["w"].item() == torch.tensor(exact).item()
    assert mean["n"].item() == 4


def test_the_mean_keeps_tied_weights_tied(tmp_path: Path) -> None:
    mean = average_weights([save(tmp_path, 1), save(tmp_path, 2)])
    assert mean["tied"] is mean["weight"]
    a, b = tensors(1)["model"]["weight"].double(), tensors(2)["model"]["weight"].double()
    assert torch.equal(mean["weight"], ((a + b) / 2).float())


def test_what_is_equal_in_all_is_its_own_mean_and_not_copied() -> None:
    frozen, trained = torch.randn(300), torch.randn(300)
    mean = weighted_mean([{"a": frozen, "b": trained}, {"a": frozen.clone(), "b": trained + 1}], [0.65, 0.35])
    assert mean["a"] is frozen
    summed = (trained.double() * 0.65 + (trained + 1).double() * 0.35) / (0.65 + 0.35)
    assert torch.equal(mean["b"], summed.float())


def test_a_mean_in_pieces_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [{"a": torch.randn(7, 5)} for _ in range(3)]
    whole = weighted_mean(members, [1, 2, 3])["a"]
    monkeypatch.setattr("s2s.checkpoint.weights.PIECE", 4)
    assert torch.equal(weighted_mean(members, [1, 2, 3])["a"], whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_parameters_are_narrowed_where_nothing_is_lost(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.checkpoint.weights.PIECE", 3)
    model = nn.Linear(4, 5)
    with torch.no_grad():
        model.weight.copy_(model.weight.to(dtype))
        model.bias.fill_(1 / 3)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    narrow(model, dtype)
    assert [p.dtype for p in model.parameters()] == [dtype, torch.float32]
    assert all(torch.equal(p.float(), before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("name", ["uniform_", "normal_", "xavier_uniform_", "kaiming_uniform_", "kaiming_normal_"])
def test_a_model_whose_weights_are_loaded_is_not_initialised_at_random(name: str) -> None:
    state = torch.get_rng_state()
    with size_limit({"weight": torch.ones(6, 6)}, Path("x")):
        linear = nn.Linear(6, 6)
        assert getattr(nn.init, name)(linear.weight) is linear.weight
    assert torch.equal(torch.get_rng_state(), state)


def test_a_mean_of_models_that_differ_is_refused(tmp_path: Path) -> None:
    one = checkpoint.save(tmp_path, "one", {"model": {"w": torch.zeros(2)}}, {})
    two = checkpoint.save(tmp_path, "two", {"model": {"w": torch.zeros(3)}}, {})
    with pytest.raises(CheckpointError, match=r"two cannot be averaged with .*one: 'w' is \[3\] there and \[2\] here"):
        average_weights([one, two])


def test_a_moving_average_stands_in_for_its_weights_under_all_their_names(tmp_path: Path) -> None:
    groups = tensors()
    moving = {"weight": torch.ones(40, 50)}  # as in named_parameters, tied weights are named once
    path = checkpoint.save(tmp_path, "x", {**groups, "ema": moving}, {})
    judged = evaluated_weights(checkpoint.load(path))
    assert_same(judged, {"weight": moving["weight"], "tied": moving["weight"], "bias": groups["model"]["bias"]})


def test_weights_that_do_not_fit_say_where(tmp_path: Path) -> None:
    given = {"weight": torch.zeros(2, 3), "extra": torch.zeros(1)}
    with pytest.raises(CheckpointError) as caught:
        load_weights(nn.Linear(4, 2), given, tmp_path)
    message = str(caught.value)
    assert "'weight' is [2, 3] there and [2, 4] here; 'bias' is not there; 'extra' is not here" in message


def test_a_model_far_larger_than_its_weights_is_not_built() -> None:
    weights, built = nn.Linear(4, 4).state_dict(), []
    with size_limit(weights, Path("x")), pytest.raises(CheckpointError, match="four times as many"):
        built.extend(nn.Linear(4, 4) for _ in range(1_000_000))
    assert len(built) < 100
    with size_limit(weights, Path("x")), pytest.raises(CheckpointError, match="four times as many"):
        nn.Linear(4, 1_000_000)


def test_what_fits_its_weights_is_built_and_nothing_is_limited_afterwards() -> None:
    weights = {name: t for i in range(99) for name, t in nn.Linear(1, 1).state_dict(prefix=f"{i}.").items()}
    with size_limit(weights, Path("x")):
        for _ in range(99):
            nn.Linear(1, 1)
    for _ in range(999):
        nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("n_parameters", "n_elements", "fits"),
    [(108, 0, True), (109, 0, False), (1, 4 * 5 + 2**20, True), (1, 21 + 2**20, False)],
)
def test_four_times_as_much_is_let_pass_and_a_little_more(n_parameters: int, n_elements: int, fits: bool) -> None:
    """Of two tensors of 5 elements in all: 4 * 2 + 100 parameters, and 4 * 5 + 2^20 elements."""
    module, sizes = nn.Module(), [n_elements, *([0] * (n_parameters - 1))]
    weights = {"a": torch.zeros(2), "b": torch.zeros(3)}
    with size_limit(weights, Path("x")), nullcontext() if fits else pytest.raises(CheckpointError, match="four times"):
        for i, size in enumerate(sizes):
            module.register_parameter(f"p{i}", nn.Parameter(torch.empty(size, device="meta")))


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (3, "'a' is not here; 'b' is not here; 'c' is not here. It belongs"),
        (4, "'a' is not here; 'b' is not here; 'c' is not here; and 1 more. It belongs"),
        (5, "'c' is not here; and 2 more. It belongs"),
    ],
)
def test_the_first_three_differences_are_named_and_the_others_counted(n: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_weights(nn.Module(), dict.fromkeys("abcde"[:n], torch.zeros(1)), tmp_path)
    assert words in str(caught.value)


def test_a_checkpoint_without_a_model_has_no_weights_to_give(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, "step-000001", {"optim": {"0.exp_avg": torch.zeros(3)}}, {"step": 1})
    found = checkpoint.load(tmp_path / "step-000001")
    with pytest.raises(CheckpointError, match="step-000001 holds no weights of a model"):
        evaluated_weights(found)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_hold_nan_are_no_model_and_a_mask_of_infinities_may_be(value: float, tmp_path: Path) -> None:
    mask = torch.full((3,), value)
    path = checkpoint.save(tmp_path, "step-000001", {"model": {"w": torch.zeros(2), "mask": mask}}, {"step": 1})
    if value == float("inf"):
        assert average_weights([path])["mask"].tolist() == mask.tolist()
        return
    with pytest.raises(CheckpointError, match="step-000001: mask holds NaN"):
        average_weights([path])
