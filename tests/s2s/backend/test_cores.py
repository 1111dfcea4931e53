"""Cores that this process may use, from its affinity and from files as Linux writes them for containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend import host
from s2s.backend.cores import usable_cores

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of more cores, of which eight are this process's."""
    monkeypatch.setattr("os.sched_getaffinity", {0: set(range(8, 16))}.get, raising=False)


def machine(folder: Path, group: str, **files: str) -> tuple[Path, Path]:
    """A /proc and a /sys/fs/cgroup: this process in `group`, and files of groups."""
    proc, cgroup = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(group + "\n")
    for name, text in files.items():
        file = cgroup / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return proc, cgroup


def test_without_limits_all_of_its_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = machine(tmp_path, "0::/")
    assert usable_cores(*given) == 8
    monkeypatch.delattr("os.sched_getaffinity")
    for n, expected in ((6, 6), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda n=n: n)
        assert usable_cores(*given) == expected


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("250000 100000", 2), ("5000 100000", 1), ("1600000 100000", 8), ("", 8), ("200000 0", 8)],
)
def test_a_container_has_whole_cores_of_its_share_of_time(quota: str, expected: int, tmp_path: Path) -> None:
    assert usable_cores(*machine(tmp_path, "0::/outside/of/here", **{"cpu.max": quota})) == expected


def test_the_smallest_share_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    files = {"cpu.max": "600000 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000", "c/cpu.max": "1 1"}
    assert usable_cores(*machine(tmp_path, "0::/a/b", **files)) == 3


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", 8)])
def test_control_groups_of_version_1(quota: str, expected: int, tmp_path: Path) -> None:
    files = {"cpu/a/cpu.cfs_quota_us": quota, "cpu/a/cpu.cfs_period_us": "100000"}
    assert usable_cores(*machine(tmp_path, "3:memory:/b\n4:cpu,cpuacct:/a", **files)) == expected


def test_torch_has_no_more_threads_than_usable_cores_unless_a_number_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the block itself sets, the number is as before afterwards."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for n_cores, given, expected in ((4, 0, 3), (2, 0, 2), (2, 5, 5)):
            monkeypatch.setattr(host, "usable_cores", lambda n=n_cores: n)
            with host.training_threads(given):
                assert torch.get_num_threads() == expected
                torch.set_num_threads(1)
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
