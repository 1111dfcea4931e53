"""All of s2s-generate but the search works in a process without torch, and without numpy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness import echo_process
from harness.tiny_runs import WORDS, train_tiny

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"torch", "numpy", "scipy", "safetensors"}
OF_FEW_TEXTS = {"regex", "html", "statistics", "difflib"}
"""What only texts need that have several sentences, parts that are copied, markup, or the like"""
LINES = [f"{first} {second}" for first in WORDS for second in WORDS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a run of one vocabulary for both sides."""
    folder = tmp_path_factory.mktemp("front")
    train_tiny(folder)
    return folder


def echoed(folder: Path, name: str, content: str, output: str, *options: str, absent: set[str] = HEAVY) -> str:
    """What a process writes whose search repeats its input."""
    (folder / name).write_text(content)
    arguments = ["run=x", f"input={name}", f"output={output}", "overwrite=true", *options]
    command = [sys.executable, echo_process.__file__, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not absent & set(done.stdout.splitlines())
    return (folder / output).read_text()


@pytest.mark.parametrize("workers", [1, 3])
def test_lines_are_read_and_written(folder: Path, workers: int) -> None:
    text = "".join(f"{line}\n" for line in [*LINES, "", "a dog. a cat sees the dog. "])
    assert echoed(folder, "in.txt", text, "out.txt", f"workers={workers}") == text


def test_cores_are_counted_and_plain_sentences_need_no_patterns(folder: Path) -> None:
    text = "\n".join(LINES * 10) + "\n"
    written = echoed(folder, "long", text, "long_out", "workers=0", absent=HEAVY | OF_FEW_TEXTS)
    assert written == text


def test_records_are_read_and_written(folder: Path) -> None:
    text = json.dumps({"src": "the old dog", "id": 3}) + "\n"
    written = echoed(folder, "in.jsonl", text, "out.jsonl", "format=jsonl", "fields=[tokens,pieces,log_probs]")
    record = json.loads(written)
    assert (record["src"], record["hyp"], record["id"]) == ("the old dog", "the old dog", 3)
    assert len(record["log_probs"]) == len(record["tokens"]) + 1 == len(record["pieces"]) + 1


def test_documents_are_read_and_written(folder: Path) -> None:
    text = "<html><p>a dog sees the cat</p>\n<ul><li>the cat</li></ul></html>"
    assert echoed(folder, "in.html", text, "out.html") == text
