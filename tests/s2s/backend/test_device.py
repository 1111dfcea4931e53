"""What is asked of devices, with stand-ins for their hardware."""

from __future__ import annotations

import errno
import re
import resource
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from harness.folders import ROOT
from s2s.backend import core_devices, device_of, device_types, product_rate
from s2s.backend.device import Device
from s2s.backend.device_types import register_core_devices, use_devices
from s2s.backend.memory import AvailableMemory
from s2s.distributed import pick_device
from s2s.errors import ConfigError
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


@pytest.fixture
def registry() -> Iterator[Registry]:
    """The core's devices, until the end of the test; plugins of other tests are forgotten."""
    registry = Registry()
    register_core_devices(registry)
    use_devices(registry)
    yield registry
    device_types._registries.clear()
    device_types._devices.clear()


def test_memory_of_a_gpu_that_can_still_be_allocated_includes_what_torch_has_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.accelerator, "memory_reserved", lambda _: 30)
    monkeypatch.setattr(torch.accelerator, "memory_allocated", lambda _: 10)
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda _: (100, 5000))
    assert device_of(CUDA).free_memory() == 100 + (30 - 10)
    monkeypatch.setattr(core_devices, "available_memory", lambda: AvailableMemory(77, "the machine"))
    assert device_of(CPU).free_memory() == 77


@pytest.mark.parametrize(("used", "free"), [(10, 90), (120, 0)])
def test_an_apple_gpu_may_use_what_metal_recommends(used: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 100)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: used)
    assert (device_of(MPS).free_memory(), device_of(MPS).peak_memory()) == (free, used)
    assert not device_of(MPS).can_measure_peak()


def test_an_apple_gpu_has_no_float64_and_restores_its_random_state(monkeypatch: pytest.MonkeyPatch) -> None:
    states = ["before"]
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: states[-1])
    monkeypatch.setattr(torch.mps, "set_rng_state", states.append)
    assert (device_of(MPS).wide_dtype, device_of(CUDA).wide_dtype) == (torch.float32, torch.float64)
    host = torch.get_rng_state()
    with device_of(MPS).fork_rng():
        torch.rand(1)
        states.append("drawn")
    assert states[-1] == "before"
    assert torch.equal(torch.get_rng_state(), host)


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_a_cpu_draws_what_torch_draws_after_a_seed_and_seeds_nothing_else(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    torch.manual_seed(seed)
    drawn, others = torch.rand(3), list[int]()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", others.append)
    device_of(CPU).manual_seed(seed)
    assert torch.equal(torch.rand(3), drawn)
    assert others == []
    device_of(CUDA).manual_seed(seed)
    assert torch.equal(torch.rand(3), drawn)
    assert others == [seed]


def test_the_peak_is_of_the_gpu_where_one_is_used_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda _: 77)
    monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=5000))
    assert device_of(CUDA).peak_memory() == 77
    monkeypatch.setattr(core_devices, "proc_bytes", lambda *_: 4000)
    assert device_of(CPU).peak_memory() == 4000
    monkeypatch.setattr(core_devices, "proc_bytes", lambda *_: None)  # not Linux
    assert device_of(CPU).peak_memory() == 5000 * 1024
    monkeypatch.setattr("sys.platform", "darwin")  # there it is in bytes
    assert device_of(CPU).peak_memory() == 5000


@pytest.mark.parametrize(
    ("device", "dtype", "capability", "has"),
    [
        (CUDA, torch.bfloat16, (8, 0), True),
        (CUDA, torch.float16, (9, 0), True),
        (CUDA, torch.bfloat16, (7, 5), False),
        (CUDA, torch.float32, (9, 0), False),
        (CPU, torch.bfloat16, (9, 0), False),
        (MPS, torch.bfloat16, (9, 0), False),
    ],
    ids=str,
)
def test_flash_attention_needs_16_bits_and_an_ampere(
    device: torch.device, dtype: torch.dtype, capability: tuple[int, int], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert device_of(device).has_varlen_attention(dtype) is has


def test_a_product_on_a_gpu_is_timed_from_an_idle_device_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Matrix:
        device = CUDA

        def __matmul__(self, other: object) -> None:
            events.append("product")

    def clock() -> float:
        events.append("clock")
        return float(len(events))

    monkeypatch.setattr(torch.accelerator, "synchronize", lambda _: events.append("wait"))
    monkeypatch.setattr("s2s.backend.device.time", SimpleNamespace(perf_counter=clock))
    assert product_rate._seconds(Matrix(), Matrix()) == 3  # type: ignore[arg-type]
    assert events == ["wait", "clock", "product", "wait", "clock"]


def test_what_other_processes_take_of_a_cpu_is_no_time_of_its_own() -> None:
    """A process that waits is like one that others keep from running."""
    clock = device_of(torch.device("cpu")).clock
    began = clock()
    time.sleep(0.05)
    slept = clock() - began
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    assert slept < 0.02
    assert clock() - began >= 0.05


class BF16Only(Device):
    """A type that no plugin has registered yet; torch knows its name."""

    autocast_dtypes = (torch.bfloat16,)

    def count(self) -> int:
        return 2


def test_a_registered_type_is_chosen_by_its_name_and_by_auto(registry: Registry) -> None:
    assert type(device_of(torch.device("hpu"))) is Device, "the defaults, as it is not registered"
    with pytest.raises(ConfigError, match="device=hpu: no such device; use auto, cpu, cuda, mps, xpu, or"):
        pick_device("hpu", "device")
    registry.add("device", "hpu", Choice, BF16Only)
    registry.add("device", "unheard", Choice, Device)  # of a package that is not installed
    use_devices(registry)
    assert str(pick_device("hpu", "device", 1)) == str(pick_device("auto", "device", 1)) == "hpu:1"
    with pytest.raises(ConfigError, match="device=hpu:2: hpu:2 is asked for, and torch sees 2 such devices"):
        pick_device("hpu:2", "device")
    with pytest.raises(ConfigError, match="precision=fp16: hpu computes in fp32, bf16 only"):
        device_of(torch.device("hpu")).autocast(torch.float16)


def test_the_module_of_a_type_is_imported_when_it_is_chosen(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unheard_device.py").write_text("from s2s.backend import Device\n\nclass Npu(Device):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.add("device", "unheard", Choice, "unheard_device:Npu")
    use_devices(registry)
    assert pick_device("cpu", "device").type == "cpu"
    assert "unheard_device" not in sys.modules
    with pytest.raises(ConfigError, match="device=unheard: no such device"):
        pick_device("unheard", "device")  # the module gave torch no such name
    assert "unheard_device" in sys.modules


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("shapes differ"), False),
        (OSError(errno.ENOMEM, "can't allocate memory"), False),
    ],
    ids=repr,
)
def test_an_error_of_memory_is_known(error: BaseException, is_memory: bool) -> None:
    assert device_of(torch.device("cpu")).is_memory_error(error) is is_memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_forward_pass_runs_in_the_type_of_the_precision(dtype: torch.dtype) -> None:
    x = torch.ones(2, 2)
    with device_of(CPU).autocast(dtype):
        assert (x @ x).dtype == dtype


def test_angles_and_sums_take_the_widest_type_also_in_a_compiled_function() -> None:
    compiled = torch.compile(lambda x: x.to(device_of(x.device).wide_dtype), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).dtype == torch.float64


@pytest.mark.parametrize(
    ("pattern", "file"), [(r"""["']cuda["']|is_cuda\b""", "device_types.py"), (r"torch\.cuda\.", "core_devices.py")]
)
def test_cuda_is_named_in_one_file(pattern: str, file: str) -> None:
    sources = [path for folder in ("s2s", "plugins", "tasks") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in sources if re.search(pattern, path.read_text(encoding="utf-8"))] == [file]
