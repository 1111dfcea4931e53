"""What s2s does on a device that a plugin registers, it does as on a CPU, and rarely waits for the device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.folders import HARNESS
from harness.rehearsal_cases import GROUPS, N_UPDATES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch takes no device in Python",
)


@pytest.mark.parametrize("group", [pytest.param(one, marks=[pytest.mark.slow] * (one == "slow")) for one in GROUPS])
def test_runs_on_a_device_equal_those_on_a_cpu(group: str, tmp_path: Path) -> None:
    results = rehearsed(tmp_path, group)
    assert results.keys() == GROUPS[group].keys()
    for name, result in results.items():
        case = GROUPS[group][name]
        assert result.get("weights", 0) <= case.tolerance, name
        parts = [*([result["training"], result["validation"]] if case.train else []), *result["decoding"]]
        for part in parts:
            assert part["excess"] <= 0, (name, part)
        silent = [part for part in parts if not part["places"]]  # updates and searches end with a read
        assert silent == ([] if case.validation_searches else [result["validation"]]), name
        for decoding in result["decoding"]:
            assert decoding["equal"], (name, decoding["options"])
            assert (decoding["replays"] > 0) is ("decoding" in case.captured), (name, decoding)
        if case.train:
            assert result["updates"] == list(range(1, N_UPDATES + 1)), name
            assert (result["training"]["replays"] > 0) is ("training" in case.captured), (name, result["training"])


def test_ranks_wait_once_for_an_update_and_once_for_one_that_lacked_memory() -> None:
    results = printed("harness.rank_reads")
    assert [result["reads"] for result in results] == [1, 1]
    assert [result["with_a_failure"] for result in results] == [2, 2]


def rehearsed(folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """The cases of a group, or single ones."""
    return {result.pop("case"): result for result in printed("harness.rehearsal", str(folder), *names)}


def printed(module: str, *arguments: str) -> list[dict[str, Any]]:
    """The JSON lines of a module in a process of its own: a device is registered for good."""
    environment = {**os.environ, "PYTHONPATH": str(HARNESS.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
