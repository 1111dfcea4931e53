"""Updates and weights that are not finite: counted, kept, given up, and never saved."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from s2s.config import TrainConfig
from s2s.errors import S2SError
from s2s.training.nonfinite import NonFiniteGuard, check_finite
from s2s.training.step_result import StepResult, ratio, totals_and_counts

if TYPE_CHECKING:
    from pathlib import Path

BAD = StepResult(math.inf, {}, math.nan, 0.1, 2, 2, 0.0, 1, None)


class Warnings:
    """A log of warnings alone."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


def guard(folder: Path, **train: Any) -> tuple[NonFiniteGuard, Warnings]:
    log: Any = Warnings()
    return NonFiniteGuard.from_config(TrainConfig(**train), folder, log), log


@pytest.mark.parametrize(
    ("max_bad", "steps", "limit"), [(10, 100, 10), (10, 20, 10), (10, 19, 10), (10, 18, 9), (3, 1, 1)]
)
def test_so_many_in_a_row_or_half_of_a_shorter_run_end_it(max_bad: int, steps: int, limit: int, tmp_path: Path) -> None:
    own, _ = guard(tmp_path, max_bad=max_bad, steps=steps)
    assert own.limit == limit
    assert not own.limit_reached(SimpleNamespace(n_bad=limit - 1))  # type: ignore[arg-type]
    assert own.limit_reached(SimpleNamespace(n_bad=limit))  # type: ignore[arg-type]
    assert str(own.error(None)).startswith(
        f"{limit} updates in a row were not finite; the last good checkpoint is none."
    )
    assert f"is {tmp_path}." in str(own.error(tmp_path))


def test_a_skipped_update_is_counted_said_and_its_batch_kept_once(tmp_path: Path) -> None:
    own, log = guard(tmp_path)
    state: Any = SimpleNamespace(n_bad=1, step=1234)
    batch = [(np.array([4, 5]), [6])]
    own.record(state, 1233, batch, BAD, is_first=False)
    assert not own.path.exists()
    own.record(state, 1233, batch, BAD, is_first=True)
    assert state.n_bad == 3
    assert log.texts[-1] == "update 1,233 skipped: loss inf, gradient norm nan (3 in a row)"
    (kept,) = map(json.loads, own.path.read_text().splitlines())
    assert kept == {"step": 1233, "what": "loss inf, gradient norm nan", "pairs": [[[4, 5], [6]]]}


@pytest.mark.parametrize(
    ("loss", "gnorm", "finite"), [(1.0, 2.0, True), (math.nan, 2.0, False), (1.0, math.inf, False)], ids=str
)
def test_an_update_is_finite_if_loss_and_gradient_are(loss: float, gnorm: float, finite: bool) -> None:
    result = StepResult(loss, {"nll": 3.0}, gnorm, 0.1, 20, 30, 0.25, 4, 5.0)
    assert result.is_finite is finite
    assert result.record() == {
        "loss": pytest.approx(loss, nan_ok=True),
        "nll": 3.0,
        "lr": 0.1,
        "gnorm": gnorm,
        "tokens": 20,
        "src_tokens": 30,
        "padding": 0.25,
        "micro_batches": 4,
    }


def test_sums_come_in_pairs_and_nothing_counted_is_no_number() -> None:
    assert list(totals_and_counts([1.0, 2.0, 3.0, 4.0])) == [(1.0, 2.0), (3.0, 4.0)]
    assert ratio(1.0, 4.0) == 0.25
    assert math.isnan(ratio(1.0, 0.0))
    with pytest.raises(ValueError, match="argument"):
        list(totals_and_counts([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("value", "name", "refused"),
    [
        (0.0, "p", False),
        (math.nan, "p", True),
        (math.inf, "p", True),
        (math.nan, "mask", True),
        (math.inf, "mask", False),
    ],
)
def test_only_a_buffer_may_hold_infinity(value: float, name: str, refused: bool, tmp_path: Path) -> None:
    tensors = {"model": {name: torch.tensor([1.0, value]), "other": torch.ones(2)}}
    if refused:
        with pytest.raises(
            S2SError, match=rf"^after update 1,000, {name} \(model\): not finite, and not saved; the last"
        ):
            check_finite(tensors, {"p", "other"}, 1000, tmp_path)
    else:
        check_finite(tensors, {"p", "other"}, 1000, tmp_path)


@pytest.mark.parametrize(
    ("names", "said"), [("a", r"a \(model\): not"), ("ab", r"a \(model\) and 1 more: not"), ("abc", "and 2 more: not")]
)
def test_the_first_of_several_is_named_and_the_others_counted(names: str, said: str, tmp_path: Path) -> None:
    tensors = {"model": {name: torch.tensor([math.nan]) for name in names}, "optim": {"c": torch.ones(1)}}
    with pytest.raises(S2SError, match=rf"^after update 7, .*{said} finite"):
        check_finite(tensors, set(), 7, tmp_path)


def test_what_an_optimizer_keeps_is_counted_too(tmp_path: Path) -> None:
    tensors = {"model": {n: torch.tensor([math.nan]) for n in "ab"}, "optim": {"c": torch.tensor([math.nan])}}
    with pytest.raises(S2SError, match=r"a \(model\) and 2 more: not finite"):
        check_finite(tensors, set(), 7, tmp_path)
    with pytest.raises(S2SError, match=r"c \(optim\): not finite"):
        check_finite({"model": {"a": torch.ones(1)}, "optim": tensors["optim"]}, set(), 7, tmp_path)
