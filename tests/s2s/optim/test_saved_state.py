"""An optimizer loads all that it saved, and refuses what it could not have saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from s2s.optim.saved_state import check_same_kind, check_same_state

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, 0.1, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.1, fused=True),
    "adadelta": lambda p: torch.optim.Adadelta(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, 0.1),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1),
}


def stepped(name: str) -> torch.optim.Optimizer:
    """Two groups with weights of 0 to 3 dimensions after two steps; one parameter has no gradient, and no state."""
    weights = [nn.Parameter(torch.ones(shape)) for shape in ((), (3,), (4, 5), (2, 3, 4), (6,))]
    only_one = name == "lbfgs"
    optimizer = OPTIMIZERS[name](weights if only_one else [{"params": weights[:2]}, {"params": weights[2:]}])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.stack([(w**2).sum() for w in weights[:4]]).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_its_own_state_and_is_not_changed(name: str) -> None:
    optimizer = stepped(name)
    before = [p.clone() for group in optimizer.param_groups for p in group["params"]]
    state = optimizer.state_dict()["state"]
    check_same_state(optimizer, state)
    after = [p for group in optimizer.param_groups for p in group["params"]]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state_dict()["state"].keys() == state.keys()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s[2].pop("exp_avg"), "2.exp_avg is not there"),
        (lambda s: s[2].update(exp_avg_sq=5), "2.exp_avg_sq is '5'"),
        (lambda s: s[2].update(exp_avg=torch.zeros(5, 4)), r"2.exp_avg is \[5, 4\] instead of \[4, 5\]"),
        (lambda s: [s[i].update(exp_avg=torch.zeros(1)) for i in s], r"0.exp_avg is \[1\] instead of \[\]"),
        (lambda s: s[3].update(exp_avg=torch.zeros(2, 3, 4).double()), "3.exp_avg is torch.float64 instead of"),
        (lambda s: s[3]["exp_avg"].view(-1)[7].fill_(torch.nan), "3.exp_avg holds NaN"),
        (lambda s: s[1].update(step=torch.tensor(-1.0)), "1.step is -1.0"),
        (lambda s: s[1].update(step=torch.tensor(torch.nan)), "1.step holds NaN"),
        (lambda s: s[1].update(step=torch.ones(2, 2)), r"1.step is \[2, 2\] instead of \[\]"),
    ],
    ids=["lacks", "number", "transposed", "all cut", "type", "nan", "negative", "nan steps", "steps"],
)
def test_a_state_that_it_cannot_have_saved_is_refused(change: Callable[[Any], object], complaint: str) -> None:
    optimizer = stepped("adam")
    state = optimizer.state_dict()["state"]
    change(state)
    with pytest.raises(ValueError, match=complaint):
        check_same_state(optimizer, state)


def test_a_parameter_that_was_never_stepped_may_say_so() -> None:
    optimizer = stepped("adam")
    state = optimizer.state_dict()["state"]
    state[1]["step"] = torch.tensor(0.0)
    check_same_state(optimizer, state)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ((7, 5), ""),
        ((0, 5), ""),
        ((7, 4), r"0.exp_avg is \[7, 4\] instead of \[7, 5\]"),
        ((5,), r"instead of \[5, 5\]"),
    ],
    ids=str,
)
def test_of_a_parameter_whose_rows_others_hold_a_row_is_as_wide_as_its_own(
    shape: tuple[int, ...], complaint: str
) -> None:
    optimizer = OPTIMIZERS["adam"]([nn.Parameter(torch.zeros(0, 5))])
    state = {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(shape), "exp_avg_sq": torch.zeros(shape)}}
    if not complaint:
        check_same_state(optimizer, state)
        return
    with pytest.raises(ValueError, match=complaint):
        check_same_state(optimizer, state)


def test_of_an_optimizer_that_cannot_step_alone_numbers_are_checked() -> None:
    optimizer = stepped("lbfgs")
    state = optimizer.state_dict()["state"]
    state[0]["d"][0] = torch.nan
    with pytest.raises(ValueError, match=r"optim\.state\.0\.d holds NaN"):
        check_same_state(optimizer, state)


@pytest.mark.parametrize(
    ("own", "saved", "fits"),
    [
        (0.1, 1, True),
        (1, torch.tensor(2.0), True),
        (True, False, True),
        (None, None, True),
        ("a", "b", True),
        ((0.9, 0.98), (1, 2.0), True),
        ((), (), True),
        (True, 1, False),
        (1, True, False),
        (0.1, "0.1", False),
        (0.1, None, False),
        (None, 0.1, False),
        ("a", 1, False),
        ((0.9, 0.98), (1,), False),
        ((0.9, 0.98), (1, "x"), False),
        ((0.9,), 0.9, False),
        (0.9, (0.9,), False),
    ],
    ids=str,
)
def test_an_option_keeps_its_kind(own: Any, saved: Any, fits: bool) -> None:
    if fits:
        check_same_kind("x", own, saved)
        return
    with pytest.raises(TypeError, match=r"^optim\.x: .* instead of "):
        check_same_kind("x", own, saved)
