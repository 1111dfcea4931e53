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

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def with_megabytes(n: int, action: Callable[[], object]) -> int:
    """Exit code of a child that may take so many more megabytes of addresses."""

    def limited() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (n << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        action()

    return in_child(limited)


def refused() -> None:
    with pytest.raises(
        MemoryError, match=r"^64 threads of sentencepiece cannot be started \(can't start new thread\): al"
    ):
        check_threads(64)
    assert threading.active_count() == 1, "those that were started have ended"


def test_threads_for_which_there_are_no_addresses_are_an_error() -> None:
    assert with_megabytes(40, refused) == 0


def test_threads_for_which_there_are_addresses_are_none() -> None:
    n_before = threading.active_count()
    for n in (0, 1, 16):
        check_threads(n)
    assert threading.active_count() == n_before


def test_one_thread_is_not_tried() -> None:
    assert with_megabytes(0, lambda: check_threads(1)) == 0
