"""The first commands that people type, under a limit of 8 GiB.

The limit is on address space (ulimit -v), so it holds for memory in use as well; a control group would need privileges
that tests do not have. The memory that was used is checked, too.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")]
LIMIT = 8 * 2**30
COMMANDS = [["task=translation", "arch=transformer_big"], ["task=parsing"], ["task=parsing", "recipe=none"]]
UPDATE = ["train.steps=1", "train.tokens=2000", "valid.sentences=4"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first command that needs a corpus leaves it for the others."""
    return tmp_path_factory.mktemp("prepared")


@pytest.mark.parametrize("flags", [["--dry-run"], UPDATE], ids=["dry", "train"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_trains_in_8_gib(tmp_path: Path, prepared: Path, command: list[str], flags: list[str]) -> None:
    limited = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_AS, 2 * (int(sys.argv[1]),));"
        "os.execv(sys.executable, [sys.executable, '-m', 's2s.cli.train', *sys.argv[2:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, str(LIMIT), *command, f"data.prepared={prepared}", *flags],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert ("dry run" if flags == ["--dry-run"] else "done  1 updates") in done.stdout
    assert 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < LIMIT
