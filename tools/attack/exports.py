"""Damaged exports for CTranslate2, with which lines are then generated: the same outputs, or one line."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from attack.damages import spoil
from attack.sandbox import run
from attack.scene import BEGIN, GENERATE, Scene, call_here, written
from attack.verdicts import Case, judge

if TYPE_CHECKING:
    from pathlib import Path

EXPORT = "runs/x/export/ctranslate2"
COMMAND = [*GENERATE, "backend=ctranslate2"]


class Exports:
    """The export of a run, and that of another one, of whose files some take the place of its own."""

    def __init__(self, root: Path) -> None:
        self.scene, self.other = Scene(root), root / "other"
        call_here(self.scene.whole, "s2s-train", [*BEGIN, "seed=2", "run=y", "train.steps=4"])
        for arguments in (["run=x"], ["run=y", f"output={self.other}"]):
            call_here(self.scene.whole, "s2s-export", [*arguments, "sentences=2", "--quiet"])
        folder = self.scene.copy()
        assert run(folder, "s2s-generate", COMMAND).code == 0
        self.expected = written(folder)

    def case(self, number: int, seed: int) -> Case:
        """Damage one file, or two; then generate."""
        draw = random.Random(f"exports {seed} {number}")
        folder = self.scene.copy()
        files = sorted((folder / EXPORT).iterdir())
        what = spoil(draw, files, folder / EXPORT, self.other)
        ended = run(folder, "s2s-generate", COMMAND)
        return judge(number, what, ended, written(folder) == self.expected)
