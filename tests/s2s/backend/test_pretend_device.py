"""A device that a plugin registers trains and decodes as a CPU does; how often the host reads from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from harness.folders import HARNESS
from harness.tiny_runs import write_corpus

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
"""Kernels of attention and chunks of the loss differ between devices"""


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """What `pretend_process` prints, with the weights, losses and outputs of its run."""
    folder.mkdir()
    write_corpus(folder, 40)
    (folder / "in").write_text("the old dog sees a cat\na cat eats\nthe dog\n")
    command = [sys.executable, "-m", "harness.pretend_process", str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(HARNESS.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert printed["code"] == 0, done.stderr
    lines = (folder / "runs" / "x" / "log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {
        **printed,
        "weights": load_file(folder / "runs" / "x" / "checkpoints" / "step-000004" / "model.safetensors"),
        "norms": torch.tensor([record["gnorm"] for record in records if "gnorm" in record]),
        "outputs": (folder / "out").read_text(),
    }


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("cpu") / "run", "cpu")


@pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch takes no device in Python",
)
@pytest.mark.parametrize("options", [[], ["no float64"]], ids=["float64", "no float64"])
def test_a_registered_device_trains_and_decodes_as_a_cpu(
    options: list[str], on_cpu: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_device = run(tmp_path / "run", "pretend", *options)
    assert json.loads((tmp_path / "run" / "runs" / "x" / "env.json").read_text())["device"] == "pretend (Python)"
    assert on_device["refused"] == ["devices", *(["float64"] if options else [])], "mistakes would be noticed"
    assert on_device["outputs"] == on_cpu["outputs"]
    assert len(on_device["norms"]) == len(on_cpu["norms"]) > 0
    torch.testing.assert_close(on_device["norms"], on_cpu["norms"], **TOLERANCE)
    torch.testing.assert_close(on_device["weights"], on_cpu["weights"], **TOLERANCE)
    with capsys.disabled():
        print("\n" + reads("s2s.training.train_step", on_device["training"], on_device["n_updates"], "update"))
        print(reads("s2s.decoding", on_device["decoding"], on_device["n_steps"], "decoding step"))


def reads(module: str, counts: list[tuple[str, str, int]], n: int, what: str) -> str:
    """A line with the reads by the host while a function of `module` was running, by their places."""
    places = {place: n_reads / n for modules, place, n_reads in counts if module in modules}
    assert places, "each of them ends with a read"
    listed = ", ".join(f"{place.removeprefix('s2s.')} {count:.2f}" for place, count in places.items())
    return f"{sum(places.values()):.2f} reads by the host per {what}: {listed}"
