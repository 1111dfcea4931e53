"""Values come from processes that are copies of this one, and their failures are told."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from s2s_workers.processes import n_useful_processes, run_in_processes

if TYPE_CHECKING:
    from collections.abc import Iterator


def squares(*numbers: int) -> Iterator[list[float]]:
    for n in numbers:
        yield [n * n + 0.1, os.getpid()]


def test_all_values_come_and_each_part_has_a_process_of_its_own() -> None:
    found = list(run_in_processes([lambda i=i: squares(*range(i, 40, 3)) for i in range(3)]))  # type: ignore[misc]
    assert sorted(value for value, _ in found) == [n * n + 0.1 for n in range(40)]
    assert len({pid for _, pid in found} | {os.getpid()}) == 4


def test_large_values_come_whole() -> None:
    assert [len(value) for value in run_in_processes([lambda: ["ü" * 300_000, "x"]])] == [300_000, 1]


def test_a_failure_is_told_with_its_place() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise ValueError("no such symbol")

    with pytest.raises(RuntimeError, match="no such symbol"):
        list(run_in_processes([fails]))


def test_a_killed_process_is_told() -> None:
    def dies() -> Iterator[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield 1

    with pytest.raises(RuntimeError, match="ended before its work was done"):
        list(run_in_processes([dies, lambda: [2]]))


def test_nobody_works_on_when_the_values_are_no_longer_wanted() -> None:
    def forever() -> Iterator[int]:
        while True:
            yield os.getpid()

    values = run_in_processes([forever])
    pid = next(values)
    values.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_processes_than_asked_for(most: int) -> None:
    assert 1 <= n_useful_processes(most, lambda: time.sleep(0.002)) <= most
