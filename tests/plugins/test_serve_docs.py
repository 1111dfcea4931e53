"""The commands of docs/serving.md run as they stand there, in bash and in sh."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from harness.folders import ROOT
from harness.small_server import listening, tiny_server
from harness.tiny_runs import train_tiny

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")]

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
STARTING, ASKING = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's runs and files are."""
    found = tmp_path_factory.mktemp("docs")
    train_tiny(found)
    for name in ("my_run", "my_parser"):
        (found / "runs" / name).symlink_to(found / "runs" / "x")
    (found / "keys.txt").write_text("secret\n")
    (found / "news.en").write_text("the old dog\nthe cat\n")
    return found


def printed(shell: str, commands: str, folder: Path) -> str:
    """What a shell prints that reads these lines."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run([shell, "-e"], input=commands, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_the_commands_that_start_a_server_are_valid(shell: str, folder: Path) -> None:
    commands = [f"{line} --dry-run" for line in STARTING.splitlines() if line.startswith("s2s-serve")]
    assert len(commands) == 2
    printed(shell, "\n".join(commands), folder)


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_the_requests_are_answered(shell: str, folder: Path) -> None:
    with listening(tiny_server(str(folder / "runs" / "x"), jobs=str(folder / shell))) as address:
        found = printed(shell, ASKING.replace("localhost:8000/", address), folder)
    whole, events, job = re.fullmatch(r"(\{.*\})(event: .*\n\n)(\{.*\})", found, re.DOTALL).groups()  # type: ignore[union-attr]
    assert len(json.loads(whole)["results"][0]["nbest"]) == 2
    assert "event: done" in events
    assert json.loads(job)["lines"] == 2
