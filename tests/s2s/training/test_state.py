from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from s2s.training.state import TrainerState


def test_a_state_comes_back_from_json() -> None:
    state = TrainerState(step=7, epoch=2, batch=3, seconds=1.5, valid_step=6, best=[(0.5, 6), (float("-inf"), 3)])
    assert TrainerState.from_json(json.loads(json.dumps(asdict(state)))) == state


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("step", "epoch", "n_bad") for value in (-1, 1.0, True, "1", None, 10**30)),
        *(("seconds", value) for value in (-1, "1", None, True, 1e999, float("nan"))),
        *(("best", value) for value in (5, [[1]], [["x", 1]], [[1, "x"]], [[1, -1]])),
        *(("best_metric", value) for value in (None, 5, [])),
        ("another", 1),
    ],
)
def test_a_state_that_no_run_can_have_is_refused(key: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        TrainerState.from_json(asdict(TrainerState(step=7)) | {key: value})
