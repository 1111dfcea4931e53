"""What is asked of a GPU and of the C library, with stand-ins for both."""

from __future__ import annotations

import resource
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend import device
from s2s.backend.memory import AvailableMemory

if TYPE_CHECKING:
    from collections.abc import Callable

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_memory_of_a_gpu_that_can_still_be_allocated_includes_what_torch_has_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 10)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100, 5000))
    assert device.free_memory(CUDA) == 100 + (30 - 10)
    monkeypatch.setattr(device, "available_memory", lambda: AvailableMemory(77, "the machine"))
    assert device.free_memory(CPU) == 77


def test_the_peak_is_of_the_gpu_where_one_is_used_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 77)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=5000))
    assert device.peak_memory(CUDA) == 77
    assert device.peak_memory(CPU) == 5000 * 1024
    monkeypatch.setattr("sys.platform", "darwin")  # there it is in bytes
    assert device.peak_memory(CPU) == 5000


@pytest.mark.parametrize(
    ("of", "dtype", "capability", "has"),
    [
        (CUDA, torch.bfloat16, (8, 0), True),
        (CUDA, torch.float16, (9, 0), True),
        (CUDA, torch.bfloat16, (7, 5), False),
        (CUDA, torch.float32, (9, 0), False),
        (CPU, torch.bfloat16, (9, 0), False),
    ],
    ids=str,
)
def test_flash_attention_needs_16_bits_and_an_ampere(
    of: torch.device, dtype: torch.dtype, capability: tuple[int, int], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert device.has_varlen_attention(of, dtype) is has


def test_a_product_on_a_gpu_is_timed_from_an_idle_device_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Matrix:
        device = CUDA

        def __matmul__(self, other: object) -> None:
            events.append("product")

    def clock() -> float:
        events.append("clock")
        return float(len(events))

    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: events.append("wait"))
    monkeypatch.setattr(device, "time", SimpleNamespace(perf_counter=clock))
    assert device._seconds(Matrix(), Matrix()) == 3  # type: ignore[arg-type]
    assert events == ["wait", "clock", "product", "wait", "clock"]


def library(calls: list[tuple[int, ...]]) -> Callable[[None], SimpleNamespace]:
    return lambda _: SimpleNamespace(
        mallopt=lambda *values: calls.append(values), malloc_trim=lambda *values: calls.append(values)
    )


def test_freed_memory_is_kept_by_three_settings_and_released_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of M_MMAP_MAX, M_TRIM_THRESHOLD and M_TOP_PAD are those of glibc's malloc.h."""
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr("ctypes.CDLL", library(calls))
    device.keep_freed_memory()
    assert calls == [(-4, 0), (-1, 2147483647), (-2, 64 << 20)]
    calls.clear()
    device.release_freed_memory()
    assert calls == [(0,)]


def no_library(_: None) -> SimpleNamespace:
    raise OSError


@pytest.mark.parametrize("load", [no_library, lambda _: SimpleNamespace()], ids=["none", "another"])
def test_another_c_library_is_left_alone(
    load: Callable[[None], SimpleNamespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", load)
    device.keep_freed_memory()
    device.release_freed_memory()
