"""Flips bits anywhere in a run, its prepared data or its tokenisers; sizes and times stay.

Each case flips four, in different files. Where the command ends as if nothing had happened, none of them had an effect,
and all count; where it reports something, one has been found, and one counts.
"""

from __future__ import annotations

import os
import random
from functools import cached_property
from typing import TYPE_CHECKING

from attack.sandbox import run
from attack.scene import GENERATE, Scene, train, weights, written
from attack.verdicts import Case, Verdict, judge

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
        """Flip bits, then do something with what was flipped."""
        draw = random.Random(f"flips {seed} {number}")
        expected = self.expected
        folder = self.scene.copy()
        files = sorted(p for p in (folder / "runs").rglob("*") if p.is_file() and not p.is_symlink())
        flipped = draw.sample([path for path in files if path.stat().st_size], FLIPS)
        places = [flip_somewhere(draw, file) for file in flipped]
        action = draw.choice(ACTIONS)
        ended, left = act(action, folder)
        what = ", ".join(f"{place} of {file.relative_to(folder)}" for place, file in zip(places, flipped, strict=True))
        case = judge(number, f"{what}, then {action}", ended, left == expected[action])
        said = case.verdict is not Verdict.FINE or "warning" in ended.err
        return case._replace(n_faults=1 if said else FLIPS)


FLIPS = 4
"""Bits that a case turns over"""
ACTIONS = ("continue", "begin", "generate")


def flip_somewhere(draw: random.Random, file: Path) -> str:
    """Flip a random bit, in half of the cases of the first kilobyte, where headers are; says which."""
    place = draw.randrange(min(file.stat().st_size, draw.choice((1 << 10, 1 << 62))))
    bit = draw.randrange(8)
    flip(file, place, bit)
    return f"bit {bit} of byte {place}"


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
        return train(folder, 5), weights(folder)
    return train(folder, 2, "run=y"), weights(folder, "y")
