"""A file that cannot grow, as on a full disk: every command ends with one line and the same exit code."""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

import pytest

from harness.forked_children import in_child
from harness.tiny_runs import COMMANDS, SMALL, train_tiny
from s2s_report.command import main as report

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ARGUMENTS = {
    "s2s-train": [*SMALL, "run=new", "train.steps=2", "data.prepared=new", "--quiet"],
    "s2s-prepare": [*SMALL[:3], "data.workers=1", "data.prepared=new"],
    "s2s-generate": ["run=x", "input=a.en", "output=new.de", "threads=1", "--quiet"],
    "s2s-average": ["run=x", "last=2"],
    "s2s-export": ["run=x", "format=huggingface", "output=new", "sentences=2"],
    "s2s-report": ["run=x", "sentences=2", "samples=10", "output=new"],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    train_tiny(folder, "task.valid=[a.en,a.de]", "valid.every=0", "valid.sentences=2")
    return folder


def end_on_full_disk(folder: Path, command: str, n_bytes: int) -> tuple[int, list[str]]:
    """Exit code and lines of error of a command whose files may have so many bytes."""
    reading, writing = os.pipe()

    def child() -> None:
        os.chdir(folder)
        sys.stdout, sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"), os.fdopen(writing, "w", 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
        os._exit((COMMANDS | {"s2s-report": report})[command](ARGUMENTS[command]))

    code = in_child(child)
    os.close(writing)
    with os.fdopen(reading) as said:
        return code, said.read().splitlines()


@pytest.mark.parametrize("n_bytes", [0, pytest.param(700, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_command_ends_with_the_same_exit_code(here: Path, command: str, n_bytes: int) -> None:
    code, said = end_on_full_disk(here, command, n_bytes)
    errors = [line for line in said if line.startswith(f"{command}: error: ")]
    assert code == 2, said
    assert len(errors) == 1, said
    assert not any("Traceback" in line for line in said)
