from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from s2s.training.state import TrainerState


def test_a_state_comes_back_from_json() -> None:
    state = TrainerState(step=7, epoch=2, batch=3, seconds=1.5, valid_step=6, best=[(0.5, 6), (float("-inf"), 3)])
    assert TrainerState.from_json(json.loads(json.dumps(asdict(state)))) == state


def test_a_new_run_has_done_nothing() -> None:
    counts = dict.fromkeys(("step", "epoch", "batch", "n_tokens", "n_bad", "seconds", "valid_step", "n_stale"), 0)
    assert asdict(TrainerState()) == {**counts, "best": [], "best_metric": "nll", "best_basis": ""}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("step", "epoch", "n_bad") for value in (-1, 1.0, True, "1", None, 10**30)),
        *((key, 1 << 53) for key in ("step", "epoch", "batch", "n_tokens", "n_bad", "valid_step", "n_stale")),
        *(("seconds", value) for value in (-1, "1", None, True, 1e999, float("nan"))),
        *(("best", value) for value in (5, [[1]], [["x", 1]], [[1, "x"]], [[1, -1]])),
        *((key, value) for key in ("best_metric", "best_basis") for value in (None, 5, [])),
        ("another", 1),
    ],
)
def test_a_state_that_no_run_can_have_is_refused(key: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        TrainerState.from_json(asdict(TrainerState(step=7)) | {key: value})


def test_counts_reach_from_0_to_what_every_reader_of_json_takes_for_a_whole_number() -> None:
    largest = (1 << 53) - 1
    saved = asdict(TrainerState(step=largest, n_tokens=largest, seconds=0, best=[(0.0, 0), (-1.0, largest)]))
    assert TrainerState.from_json(saved).best == [(0.0, 0), (-1.0, largest)]


def test_the_best_validations_come_first_and_of_equal_ones_the_earlier() -> None:
    state, better = TrainerState(), []
    for state.step, criterion in [(2, -3.0), (4, -1.0), (6, -2.0), (8, -1.0), (10, -4.0)]:
        better.append(state.record_validation(criterion, n_best=3))
    assert better == [True, True, False, False, False]
    assert state.best == [(-1.0, 4), (-1.0, 8), (-2.0, 6)]
    assert (state.valid_step, state.n_stale) == (10, 3)


def test_validations_are_forgotten_where_another_value_ranks_them() -> None:
    state = TrainerState(n_stale=2, best=[(-1.0, 4)])
    assert state.monitor("nll", "") == ""
    assert (state.n_stale, state.best) == (2, [(-1.0, 4)])
    assert state.monitor("bleu", "") == "valid.best was nll and is bleu"
    assert (state.n_stale, state.best, state.best_metric) == (0, [], "bleu")
    assert state.monitor("chrf", "") == "", "there was nothing to forget"
    assert state.best_metric == "chrf"


@pytest.mark.parametrize(
    ("metric", "reason"),
    [("nll", "the development set has changed"), ("bleu", "the development set has changed, or how it is decoded")],
)
def test_validations_are_forgotten_where_they_were_measured_on_other_sentences(metric: str, reason: str) -> None:
    state = TrainerState(n_stale=2, best=[(-1.0, 4)], best_metric=metric)
    assert state.monitor(metric, "one") == "", "a checkpoint of an earlier version does not say on which"
    assert state.monitor(metric, "one") == ""
    assert (state.n_stale, state.best) == (2, [(-1.0, 4)])
    assert state.monitor(metric, "other") == reason
    assert (state.n_stale, state.best, state.best_basis) == (0, [], "other")


def test_a_summary_names_the_step_of_the_best_validation() -> None:
    state = TrainerState(step=9, epoch=2, n_tokens=70, seconds=1.5, n_stale=1, best=[(-1.0, 4), (-2.0, 6)])
    expected = {"steps": 9, "epochs": 2, "tokens": 70, "seconds": 1.5, "n_stale": 1, "best_step": 4}
    assert state.summary() == expected
    assert TrainerState().summary()["best_step"] is None
