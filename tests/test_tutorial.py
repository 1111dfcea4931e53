"""docs/plugins/tutorial.md from top to bottom: its files load, its commands print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.folders import ROOT
from s2s.plugin import load_plugins

PAGE = (ROOT / "docs" / "plugins" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block; `file` is what it is saved as, if it is a file."""

    language: str
    info: str
    body: str

    @property
    def file(self) -> str:
        first = self.body.partition("\n")[0]
        return re.sub(r'^title="(.*)"$', r"\1", self.info) if self.language == "csv" else first.removeprefix("# ")


BLOCKS = [Block(m["language"], m["info"].strip(), m["body"]) for m in BLOCK.finditer(PAGE)]
STEPS = [block for block in BLOCKS if block.language == "python" and block.file == "table.py"]


def write(folder: Path, block: Block) -> None:
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.body, encoding="utf-8")


@pytest.mark.parametrize("block", STEPS, ids=["a file", "options"])
def test_each_step_is_a_plugin(tmp_path: Path, block: Block) -> None:
    write(tmp_path, block)
    registry = load_plugins([str(tmp_path / "table.py")]).registry
    assert registry.get("corpus", "table").plugin.endswith("table.py")


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    binaries, site = Path(sys.executable).parent, tmp_path / "site"
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(site)}
    printed = ""
    for block in BLOCKS:
        if block.language in ("python", "csv", "toml", "yaml"):
            write(tmp_path, block)
        elif block.language == "sh":
            if block.info == "install":
                pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
                subprocess.run([*pip, "--target", str(site), str(tmp_path / "s2s-table")], check=True)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.body],
                cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            printed = done.stdout + done.stderr
            assert done.returncode == (2 if "# fails" in block.body else 0), printed
        elif not block.info:
            missing = [line for line in block.body.splitlines() if line not in printed]
            assert not missing, printed
