"""Threads that cannot be started are an error, before sentencepiece ends the process."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.forked_children import in_child
from s2s_sentencepiece.threads import check_threads
from s2s_sentencepiece.training import train_subwords

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def with_megabytes(n: int, action: Callable[[], object]) -> int:
    """Exit code of a child that may take so many more megabytes of addresses, with stacks of 8."""

    def limited() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (n << 20)
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        action()

    return in_child(limited)


def test_threads_for_which_there_are_no_addresses_are_an_error(tmp_path: Path) -> None:
    def refused() -> None:
        message = r"^16 threads of sentencepiece need 272 MB of addresses, and \d+ are left; allow more \(ulimit -v\)$"
        with pytest.raises(MemoryError, match=message):
            learn(tmp_path)

    assert with_megabytes(200, refused) == 0


def test_with_enough_addresses_a_vocabulary_is_learnt(tmp_path: Path) -> None:
    assert with_megabytes(320, lambda: learn(tmp_path)) == 0
    assert (tmp_path / "x.model").stat().st_size > 0


def learn(folder: Path) -> None:
    lines = [f"the cat sees a dog, and eats {n} of them" for n in range(50)]
    train_subwords(lines, folder / "x.model", "unigram", 30)


def test_without_a_limit_of_addresses_threads_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    n_before = threading.active_count()
    for n in (0, 1, 16):
        check_threads(n)
    assert threading.active_count() == n_before, "those that were started have ended"
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_three(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    with pytest.raises(
        MemoryError, match=r"^4 threads .* cannot be started \(can't start new thread\): allow more proc"
    ):
        check_threads(4)
    assert len(started) == 3
    assert threading.active_count() == n_before
