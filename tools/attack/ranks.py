"""One of two ranks is killed, stopped, or raises; both end, and running the command again gives the same bytes."""

from __future__ import annotations

import random
import signal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attack.sandbox import Child
from attack.scene import BEGIN, Scene, outcome
from attack.verdicts import Case, Verdict, judge, worst
from harness.ports import free_port

if TYPE_CHECKING:
    from attack.sandbox import Ended

PLUGIN = Path(__file__).with_name("raising_plugin.py")
TIMEOUT = 8
"""Seconds of train.timeout"""
ARGUMENTS = [*BEGIN, f"plugins=[{PLUGIN}]", "train.steps=8", "run=y", f"train.timeout={TIMEOUT}"]
FAULTS = ("kill", "stop", "raise")


class Ranks:
    """The two processes meet as torchrun lets them meet."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)

    @cached_property
    def undisturbed(self) -> tuple[object, float]:
        """What two ranks leave, and what rank 1 computes, in seconds."""
        folder, seconds = self.scene.copy(), 0.0
        ranks = begin(folder, {})
        while ranks[1].is_running(0.01):
            seconds = max(seconds, min(ranks[1].cpu_seconds(), 1e3))
        ended = [rank.end() for rank in ranks]
        assert [e.code for e in ended] == [0, 0], [e.err for e in ended]
        return outcome(folder, "y"), seconds

    def case(self, number: int, seed: int) -> Case:
        """One fault in one rank at a random moment; then both are started again."""
        draw = random.Random(f"ranks {seed} {number}")
        expected, seconds = self.undisturbed
        fault, rank, moment = FAULTS[number % 3], draw.randrange(2), draw.uniform(0.1, 0.9) * seconds
        folder = self.scene.copy()
        where = {"RAISE": f"{rank} {draw.randint(1, 7)} {draw.randrange(5)}"} if fault == "raise" else {}
        ended = disturbed(begin(folder, where), fault, rank, moment)
        what = f"{fault} in rank {rank} after {moment:.2f} s {where}"
        survivor = judge(number, f"{what}: the other", ended[1 - rank], is_same=True)
        if survivor.verdict is Verdict.FINE and fault == "raise":
            survivor = survivor._replace(verdict=Verdict.SILENT)
        again = [judge(number, f"{what}: again", e, outcome(folder, "y") == expected) for e in both(begin(folder, {}))]
        return worst([survivor, *again])


def begin(folder: Path, env: dict[str, str]) -> list[Child]:
    """Two ranks."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **env}
    ranks = [{**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    return [Child(folder, "s2s-train", ARGUMENTS, own) for own in ranks]


def disturbed(ranks: list[Child], fault: str, rank: int, moment: float) -> list[Ended]:
    """Both, one of which is killed or stopped when it has computed for so many seconds."""
    if fault == "raise":
        return both(ranks)
    while ranks[rank].is_running(0.001) and ranks[rank].cpu_seconds() < moment:
        pass
    ranks[rank].signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    other = ranks[1 - rank].end()
    ranks[rank].signal(signal.SIGKILL)
    ended = ranks[rank].end()
    return [other, ended] if rank else [ended, other]


def both(ranks: list[Child]) -> list[Ended]:
    """Wait for both."""
    return [rank.end() for rank in ranks]
