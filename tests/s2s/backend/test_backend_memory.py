"""What a process may still allocate, from files as Linux writes them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from s2s.backend import device_of
from s2s.backend.memory import available_memory

GB = 2**30


def machine(folder: Path, free: int, group: str) -> tuple[Path, Path]:
    """A /proc and a /sys/fs/cgroup: `free` bytes of the machine, this process in `group`."""
    proc, cgroup = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: {64 * GB // 1024} kB\nMemAvailable: {free // 1024} kB\n")
    (proc / "self" / "cgroup").write_text(group + "\n")
    (proc / "self" / "status").write_text("VmSize: 1000 kB\n")
    cgroup.mkdir()
    return proc, cgroup


def put(folder: Path, limit: str, usage: int, cached: int = 0, v1: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if v1 else ("memory.max", "memory.current")
    for name, value in zip(names, (limit, usage), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{'total_' if v1 else ''}inactive_file {cached}\n")


def test_without_limits_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available_memory(*machine(tmp_path, 20 * GB, "0::/")) == (20 * GB, "the machine")


def test_the_tightest_group_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "0::/a/b")
    put(cgroup / "a", str(8 * GB), 3 * GB, cached=GB)
    put(cgroup / "a" / "b", "max", 3 * GB)
    assert available_memory(proc, cgroup) == (6 * GB, "the control group (container)")


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "4:memory:/outside/of/here")
    put(cgroup / "memory", str(8 * GB), 5 * GB, cached=GB, v1=True)
    assert available_memory(proc, cgroup).n_bytes == 4 * GB


def test_a_group_of_version_1_without_a_limit_has_none(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "4:memory:/a")
    put(cgroup / "memory" / "a", "9223372036854771712", 5 * GB, v1=True)
    assert available_memory(proc, cgroup).n_bytes == 20 * GB


def test_a_group_whose_page_cache_is_not_known_has_what_its_usage_leaves(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "0::/a:b")
    put(cgroup / "a:b", str(8 * GB), 3 * GB)
    (cgroup / "a:b" / "memory.stat").write_text("anon 5\n")
    assert available_memory(proc, cgroup).n_bytes == 5 * GB
    (cgroup / "a:b" / "memory.current").unlink()
    assert available_memory(proc, cgroup) == (20 * GB, "the machine"), "without its usage, the limit says nothing"


@pytest.mark.parametrize(
    ("status", "soft", "expected"),
    [
        ("VmSize: 1000 kB\n", 8 * GB, (8 * GB - 1000 * 1024, "ulimit -v")),
        ("VmSize: 1000 kB\n", 10, (0, "ulimit -v")),
        ("VmSize: 1000 kB\n", resource.RLIM_INFINITY, (20 * GB, "the machine")),
        ("", 8 * GB, (20 * GB, "the machine")),
    ],
    ids=["left", "beyond it", "no limit", "of unknown use"],
)
def test_a_limit_of_address_space_leaves_what_is_not_yet_mapped(
    status: str, soft: int, expected: tuple[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "0::/")
    (proc / "self" / "status").write_text(status)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert available_memory(proc, cgroup) == expected


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    proc, cgroup = machine(tmp_path, 20 * GB, "0::/a")
    put(cgroup / "a", str(GB), 2 * GB)
    assert available_memory(proc, cgroup).n_bytes == 0


def test_a_system_without_these_files_has_what_is_built_in(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "proc", tmp_path / "cgroup").n_bytes > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_limit_of_address_space_counts() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30));"
        "from s2s.backend.memory import available_memory; a = available_memory(); assert a.limit == 'ulimit -v', a;"
        "assert a.n_bytes < 2**30; block = bytearray(2**28); assert available_memory().n_bytes <= a.n_bytes - 2**28"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says what a process took")
def test_the_peak_of_a_process_is_in_bytes() -> None:
    """At least what the kernel says since it was last asked to forget, and less than the machine has."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = 1024 * int(status["VmHWM"].split()[0])
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.99 * peak <= device_of(torch.device("cpu")).peak_memory() <= machine
