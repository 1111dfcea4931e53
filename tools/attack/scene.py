"""What is attacked: a corpus of 100 pairs, a run of four updates with its prepared data, made once and copied."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
from typing import TYPE_CHECKING

import torch

from attack.sandbox import Ended, run
from harness.tiny_runs import COMMANDS, SMALL, write_corpus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BEGIN = [*SMALL, "schedule.warmup=1", "arch.dropout=0.2", "run=x", "--quiet"]
GENERATE = ["run=x", "threads=1", "input=few.en", "output=few.out", "--quiet"]


class Scene:
    """A folder with a run, and copies of it to be spoilt."""

    def __init__(self, root: Path) -> None:
        self.whole, self.root, self.n_copies = root / "whole", root, 0
        self.whole.mkdir()
        write_corpus(self.whole)
        for side in ("en", "de"):
            lines = (self.whole / f"a.{side}").read_text().splitlines(keepends=True)
            (self.whole / f"few.{side}").write_text("".join(lines[:3]))
        call_here(self.whole, "s2s-train", [*BEGIN, "train.steps=4"])
        self.warm_up({"s2s-generate": GENERATE, "s2s-average": ["run=x", "last=2"]})

    def warm_up(self, commands: Mapping[str, list[str]]) -> None:
        """Each command once in this process, so that its children need not import again what it imports."""
        for command, arguments in commands.items():
            call_here(self.copy(), command, arguments)

    def copy(self) -> Path:
        """A new copy of all of it; the one before is removed."""
        shutil.rmtree(self.root / f"copy{self.n_copies}", ignore_errors=True)
        self.n_copies += 1
        return _copied(self.whole, self.root / f"copy{self.n_copies}")


def call_here(folder: Path, command: str, arguments: list[str]) -> None:
    """A command in this process, without what it prints."""
    torch.set_num_threads(1)
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        code = COMMANDS[command](arguments)
    assert code == 0, f"{command}: {code}"


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True)
    return target


def outcome(folder: Path, run_name: str = "x") -> dict[str, str]:
    """What is left of training that matters: the bytes of the newest checkpoint, and the loss of every update."""
    path = folder / "runs" / run_name
    steps = sorted((path / "checkpoints").glob("step-*"))
    files = sorted(steps[-1].glob("*.safetensors")) if steps else []
    hashes = {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    try:
        said = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return hashes
    return hashes | {f"loss {r['step']}": str(r["loss"]) for r in said if r.get("kind") == "update"}


def weights(folder: Path, run_name: str = "x") -> dict[str, str]:
    """The bytes of the newest checkpoint alone."""
    return {name: value for name, value in outcome(folder, run_name).items() if not name.startswith("loss")}


def written(folder: Path, name: str = "few.out") -> bytes | None:
    """The bytes of an output, if there is one."""
    file = folder / name
    return file.read_bytes() if file.is_file() else None


def train(folder: Path, steps: int, *arguments: str) -> Ended:
    """s2s-train there, until so many updates are done."""
    return run(folder, "s2s-train", [*BEGIN, f"train.steps={steps}", *arguments])
