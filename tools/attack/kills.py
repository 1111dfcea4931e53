"""kill -9 at random moments of training, generating and preparing, until the same command ends: with the same bytes."""

from __future__ import annotations

import hashlib
import random
import signal
from functools import cached_property
from typing import TYPE_CHECKING

from attack.sandbox import Child
from attack.scene import BEGIN, Scene, outcome, written
from attack.verdicts import Case, judge
from harness.tiny_runs import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from attack.sandbox import Ended

KILLS = 6
"""At most so many in a row; then the command is left alone"""


def _prepared(folder: Path) -> dict[str, str]:
    """Hashes of all that was prepared, but for the manifest, which has the time."""
    root = folder / "runs" / "prepared"
    files = [
        p for p in sorted(root.rglob("*")) if p.is_file() and p.name not in ("manifest.json",) and p.suffix != ".lock"
    ]
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


COMMANDS: dict[str, tuple[list[str], Callable[[Path], object]]] = {
    "s2s-train": ([*BEGIN, "train.steps=8", "run=y"], lambda folder: outcome(folder, "y")),
    "s2s-generate": (
        ["run=x", "threads=1", "input=a.en", "output=a.out", "resume=true", "buffer_size=9", "--quiet"],
        lambda folder: written(folder, "a.out"),
    ),
    "s2s-prepare": ([*SMALL[:3], "recipe=none", "data.workers=1", "data.prepared=runs/prepared/anew"], _prepared),
}
"""What is killed, and what it leaves"""


class Kills:
    """Each case is one command that is killed up to six times."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)

    @cached_property
    def undisturbed(self) -> dict[str, tuple[object, float]]:
        """What each command leaves when it is not killed, and what it computes, in seconds."""
        return {command: self._undisturbed(command) for command in COMMANDS}

    def case(self, number: int, seed: int) -> Case:
        """Kill one command again and again, and compare what it leaves in the end."""
        draw = random.Random(f"kills {seed} {number}")
        command = list(COMMANDS)[number % len(COMMANDS)]
        expected, seconds = self.undisturbed[command]
        folder, n_kills, left_over = self.scene.copy(), 0, draw.randint(2, KILLS)
        while True:
            moment = draw.uniform(0, 0.9 * seconds) if left_over else None
            ended = until(Child(folder, command, COMMANDS[command][0]), moment)
            left_over -= 1
            if ended.code != -signal.SIGKILL or ended.is_late:
                break
            n_kills += 1
        case = judge(number, f"{command} killed {n_kills} times", ended, COMMANDS[command][1](folder) == expected)
        return case._replace(n_faults=n_kills)

    def _undisturbed(self, command: str) -> tuple[object, float]:
        folder = self.scene.copy()
        child = Child(folder, command, COMMANDS[command][0])
        seconds = 0.0
        while child.is_running(0.01):
            now = child.cpu_seconds()
            seconds = now if now < float("inf") else seconds
        ended = child.end()
        assert ended.code == 0, ended.err
        return COMMANDS[command][1](folder), seconds


def until(child: Child, moment: float | None) -> Ended:
    """Kill it when it has computed for so many seconds; None: let it be."""
    while moment is not None and child.is_running(0.001):
        if child.cpu_seconds() >= moment:
            child.signal(signal.SIGKILL)
            break
    return child.end()
