"""docs/first_hour.md is true: its commands, in its order, do what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.folders import ROOT

PAGE = (ROOT / "docs" / "first_hour.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<language>sh|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    said = []
    for block in BLOCK.finditer(PAGE):
        shell = ["bash", "-euo", "pipefail", "-c"] if block["language"] == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*shell, block["code"]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block['code']}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout + done.stderr)
    _corpus, dry_run, interrupted, continued, scored, tuned, python = said
    assert "first validation after" in dry_run
    assert "recipe=auto" in dry_run
    assert re.search("the same command (continues|goes on)", interrupted)
    assert "done  " in continued
    is_quick, is_slow = "done  " in interrupted, "nothing had to be saved" in interrupted
    assert re.search(r"continuing after update \d", continued) or is_quick or is_slow
    assert "BLEU" in scored.upper()
    assert "init" in tuned
    assert len(python.strip()) > 1
    for run in ("mine", "second"):
        assert json.loads((tmp_path / "runs" / run / "status.json").read_text())["state"] == "done"
