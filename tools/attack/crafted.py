"""Malicious runs: right checksums over wrong contents, links, pipes, stray code files."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, NamedTuple

from attack.crafting import CRAFTS
from attack.sandbox import run, run_command
from attack.scene import BEGIN, GENERATE, Scene
from attack.verdicts import Case, Verdict, judge

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS: dict[str, list[str]] = {
    "s2s-generate": GENERATE,
    "s2s-train": [*BEGIN, "train.steps=5"],
    "s2s-average": ["run=x", "last=2"],
    "s2s-export": ["run=x", "format=hf", "output=exported", "sentences=2"],
}
WRITTEN = ("few.out", ".few.out.made-of.json", "exported", "runs")
"""What the commands may write"""


class Before(NamedTuple):
    """Files that no command may touch, and their hashes."""

    hashes: dict[str, str]


class Crafted:
    """A command on such a run ends well or in one line, runs no code of it, and writes nowhere else."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)
        self.scene.warm_up(COMMANDS)

    def case(self, number: int, seed: int) -> Case:
        """Craft one thing, or two; then use the run."""
        draw = random.Random(f"crafted {seed} {number}")
        folder = self.scene.copy()
        crafts = [CRAFTS[number % len(CRAFTS)], *(draw.sample(CRAFTS, 1) if draw.random() < 0.2 else [])]
        what = "; ".join(craft(draw, folder) for craft in crafts)
        victims = hashes(folder)
        command = draw.choice(list(COMMANDS))
        start = run_command if number % 20 == 19 else run
        ended = start(folder, command, COMMANDS[command], {"CANARY": str(folder / "canary")})
        case = judge(number, f"{what}, then {command}", ended, is_same=True)
        if hashes(folder) != victims:
            return case._replace(verdict=Verdict.SILENT, what=f"wrote elsewhere or ran code: {case.what}")
        return case


def hashes(folder: Path) -> dict[str, str]:
    """Of all files of the folder that no command is to write."""
    files = [p for p in folder.rglob("*") if p.relative_to(folder).parts[0] not in WRITTEN and p.is_file()]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
