"""Rows that several threads compute: which, in which thread, errors, and what a forked process does."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from harness.forked_children import in_child
from s2s_cpu.threads import compute_in_threads, compute_rows, compute_shares, n_shares

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def doubled(n_rows: int, n: int) -> torch.Tensor:
    """Each row twice itself, by n threads that are all at work at the same time."""
    x, meeting = torch.arange(n_rows, dtype=torch.float).repeat(2, 1).t(), threading.Barrier(n)
    out = torch.zeros_like(x)

    def compute(x: torch.Tensor, missing: None, out: torch.Tensor) -> None:
        meeting.wait(10)
        assert missing is None
        out += 2 * x  # rows that two threads compute would have twice as much

    compute_in_threads(compute, (x, None, out), n)
    assert out.equal(2 * x)
    return out


@pytest.mark.parametrize("n", [1, 2])
def test_each_row_is_computed_once_all_shares_at_the_same_time(n: int) -> None:
    doubled(5, n)


@pytest.mark.parametrize(("n", "shapes"), [(1, {(5, 7, 3)}), (2, {(18, 3), (17, 3)})])
def test_rows_of_any_shape_are_divided(n: int, shapes: set[tuple[int, ...]]) -> None:
    x, seen = torch.rand(5, 7, 3), set()
    out = torch.zeros_like(x)

    def compute(x: torch.Tensor, missing: None, out: torch.Tensor) -> None:
        assert missing is None
        seen.add(tuple(x.shape))
        out += 2 * x

    compute_rows(compute, (x, None, out), n)
    assert out.equal(2 * x)
    assert seen == shapes


def test_the_first_share_needs_no_other_thread_and_the_others_stay() -> None:
    at_work: list[threading.Thread] = []
    for _ in range(200):
        compute_shares(lambda _: at_work.append(threading.current_thread()), [(1,), (2,)])
    assert at_work.count(threading.current_thread()) == 200
    assert len(set(at_work)) <= 1 + (os.cpu_count() or 1), "no thread was started for each share"


@pytest.mark.parametrize("fails", [0, 1])
def test_an_error_is_raised_when_all_shares_are_done(fails: int) -> None:
    done: list[int] = []

    def compute(share: int) -> None:
        if share == fails:
            raise ValueError(f"share {share}")
        time.sleep(0.1)  # the other one writes to the caller's memory meanwhile
        done.append(share)

    with pytest.raises(ValueError, match=f"share {fails}"):
        compute_shares(compute, [(0,), (1,)])
    assert done == [1 - fails]


def test_a_forked_process_has_threads_of_its_own() -> None:
    doubled(4, 2)
    assert in_child(lambda: doubled(4, 2)) == 0


def test_several_threads_may_call_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda n: [doubled_alone(n) for _ in range(20)], range(2, 10)):
            assert all(found)


def doubled_alone(n_rows: int) -> bool:
    """The same without waiting for each other, since all of the threads may be at work for other callers."""
    x, out = torch.rand(n_rows, 3), torch.zeros(n_rows, 3)
    compute_in_threads(lambda x, out: out.add_(x, alpha=2), (x, out), 2)
    return out.equal(2 * x)


@pytest.mark.parametrize(
    ("n_rows", "width", "expected"), [(10, 1, 1), (1 << 20, 1, 3), (1 << 19, 1, 2), (2, 1 << 20, 2), (0, 5, 1)]
)
def test_a_share_has_enough_work(n_rows: int, width: int, expected: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert n_shares(n_rows, width) == expected
    finally:
        torch.set_num_threads(before)
