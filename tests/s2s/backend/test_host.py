"""What is asked of the C library, with stand-ins for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from s2s.backend import host

if TYPE_CHECKING:
    from collections.abc import Callable


def library(calls: list[tuple[int, ...]]) -> Callable[[None], SimpleNamespace]:
    return lambda _: SimpleNamespace(
        mallopt=lambda *values: calls.append(values), malloc_trim=lambda *values: calls.append(values)
    )


def test_freed_memory_is_kept_by_three_settings_and_released_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD are those of glibc's malloc.h."""
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr("ctypes.CDLL", library(calls))
    host.keep_freed_memory()
    assert calls == [(-4, 0), (-1, 2147483647), (-2, 64 << 20)]
    calls.clear()
    host.release_freed_memory()
    assert calls == [(0,)]


def no_library(_: None) -> SimpleNamespace:
    raise OSError


@pytest.mark.parametrize("load", [no_library, lambda _: SimpleNamespace()], ids=["none", "another"])
def test_another_c_library_is_left_alone(
    load: Callable[[None], SimpleNamespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", load)
    host.keep_freed_memory()
    host.release_freed_memory()
