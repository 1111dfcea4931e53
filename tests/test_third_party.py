"""A third-party distribution: installed into a fresh environment beside s2s, listed, trained, used; and small."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = ROOT / "examples" / "s2s-example"


@pytest.mark.parametrize(("module", "longest"), [("rnn", 70), ("sorting", 60)], ids=["architecture", "task"])
def test_a_plugin_is_short(module: str, longest: int) -> None:
    assert len((EXAMPLE / "s2s_example" / f"{module}.py").read_text().splitlines()) <= longest


@pytest.mark.slow
def test_a_strangers_distribution_trains_in_a_fresh_environment(tmp_path: Path) -> None:
    def run(*command: str | Path) -> str:
        done = subprocess.run([str(c) for c in command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    binaries = tmp_path / "venv" / "bin"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(binaries / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", ROOT, EXAMPLE)
    listed = run(binaries / "s2s-plugins", "list")
    assert "example_rnn" in listed
    assert "sorting" in listed
    settings = ["arch=example_rnn", "arch.d_model=64", "schedule=constant", "schedule.lr=3e-3", "schedule.warmup=100"]
    sizes = ["task.longest=5", "task.pairs=2000", "train.steps=500", "train.tokens=600", "valid.every=250"]
    run(binaries / "s2s-train", "task=sorting", *settings, *sizes, "run=sorted")
    (tmp_path / "in.txt").write_text("3 1 2\n\n9 0\n4 4 1\n")
    assert run(binaries / "s2s-generate", "run=sorted", "input=in.txt").splitlines() == ["1 2 3", "", "0 9", "1 4 4"]
