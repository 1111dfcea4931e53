"""One bit, anywhere in a run, its prepared data or its tokenisers, turned over; sizes and times stay."""

from __future__ import annotations

import os
import random
from functools import cached_property
from typing import TYPE_CHECKING

from attack.sandbox import run
from attack.scene import GENERATE, Scene, train, weights, written
from attack.verdicts import Case, judge

if TYPE_CHECKING:
    from pathlib import Path

    from attack.sandbox import Ended


class Flips:
    """Then training goes on, a new run begins on the same data, or lines are generated: with the same bytes, or not."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)

    @cached_property
    def expected(self) -> dict[str, object]:
        """What each action leaves when nothing was flipped."""
        found = {}
        for action in ACTIONS:
            folder = self.scene.copy()
            ended, left = act(action, folder)
            assert ended.code == 0, ended.err
            found[action] = left
        return found

    def case(self, number: int, seed: int) -> Case:
        """Flip one bit, then do something with what was flipped."""
        draw = random.Random(f"flips {seed} {number}")
        expected = self.expected
        folder = self.scene.copy()
        files = sorted(p for p in (folder / "runs").rglob("*") if p.is_file() and not p.is_symlink())
        file = draw.choice([path for path in files if path.stat().st_size])
        # half in the first kilobyte, where headers are
        place = draw.randrange(min(file.stat().st_size, draw.choice((1 << 10, 1 << 62))))
        bit = draw.randrange(8)
        flip(file, place, bit)
        action = draw.choice(ACTIONS)
        ended, left = act(action, folder)
        what = f"bit {bit} of byte {place} of {file.relative_to(folder)}, then {action}"
        return judge(number, what, ended, left == expected[action])


ACTIONS = ("continue", "begin", "generate")


def flip(file: Path, place: int, bit: int) -> None:
    """Turn one bit over and leave the times as they were."""
    times = file.stat()
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << bit
    file.write_bytes(data)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def act(action: str, folder: Path) -> tuple[Ended, object]:
    """How the command ended, and what it left."""
    if action == "generate":
        return run(folder, "s2s-generate", GENERATE), written(folder)
    if action == "continue":
        return train(folder, 6), weights(folder)
    return train(folder, 2, "run=y"), weights(folder, "y")
