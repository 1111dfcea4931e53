"""Damaged and crafted grammars, with which sentences are then parsed: the same trees, or one line."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from attack.crafting import ODD
from attack.damages import spoil
from attack.sandbox import run
from attack.scene import call_here
from attack.verdicts import Case, judge
from s2s_pcfg.grammar_file import SHAPES, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

TREES = (
    "(TOP (S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (A old) (N cat)))))\n"
    "(TOP (S (NP (N dogs)) (VP (V see) (NP (N cats)) (PP (P with) (NP (D the) (N dog))))))\n"
    "(TOP (S (VP (V see))))\n"
)
COMMAND = ["parse", "grammar=g.npz", "input=in.txt", "output=out.mrg", "--quiet"]
NUMBERS = (-1, -(2**40), 2**31, 2**62, float("nan"), float("inf"), -0.5, 1.5, 1e300)


class Grammars:
    """A grammar of three trees; half of the cases have right checksums over wrong arrays."""

    def __init__(self, root: Path) -> None:
        self.root, self.whole, self.n_copies = root, root / "whole", 0
        self.whole.mkdir()
        (self.whole / "trees.mrg").write_text(TREES)
        (self.whole / "in.txt").write_text("the dog sees a old cat\nsee\nthe horse sees the Dogs\n")
        train = ["train", "task.train=trees.mrg", "splits=1", "iterations=2", "--quiet"]
        call_here(self.whole, "s2s-pcfg", [*train, "output=g.npz"])
        with np.load(self.whole / "g.npz") as file:
            self.arrays = {name: array for name, array in file.items() if name in SHAPES}
        folder = self._copy()
        assert run(folder, "s2s-pcfg", COMMAND).code == 0
        self.expected = (folder / "out.mrg").read_bytes()

    def _copy(self) -> Path:
        shutil.rmtree(self.root / f"copy{self.n_copies}", ignore_errors=True)
        self.n_copies += 1
        return shutil.copytree(self.whole, self.root / f"copy{self.n_copies}")

    def case(self, number: int, seed: int) -> Case:
        """Damage the file, or the arrays in it; then parse."""
        draw = random.Random(f"grammars {seed} {number}")
        folder = self._copy()
        if number % 2:
            what = spoil(draw, [folder / "g.npz"], folder, folder)
        else:
            what, arrays = crafted(draw, self.arrays)
            write_arrays(folder / "g.npz", arrays)
        ended = run(folder, "s2s-pcfg", COMMAND)
        out = folder / "out.mrg"
        return judge(number, what, ended, out.is_file() and out.read_bytes() == self.expected)


def crafted(draw: random.Random, arrays: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Arrays of which one is no part of a grammar, and what has been done to it."""
    name = draw.choice([*SHAPES, *[name for name in SHAPES if "p_" in name]])
    array, way = arrays[name], draw.choice(("number", "number", "type", "size", "rank", "gone", "new", "odd"))
    if way == "gone":
        return f"{name}: gone", {key: value for key, value in arrays.items() if key != name}
    if way == "new":
        return "another array", {**arrays, "new": np.zeros(3)}
    if way == "number" and array.dtype.kind in "if" and array.size:
        array, value = array.astype(float if array.dtype.kind == "f" else np.int64), draw.choice(NUMBERS)
        if array.dtype.kind == "i":
            value = draw.choice([number for number in NUMBERS if isinstance(number, int)])
        array.flat[draw.randrange(array.size)] = value
        return f"{name}: {value}", {**arrays, name: array}
    if way == "size" and array.ndim and array.size:
        return f"{name}: a row less", {**arrays, name: array[1:]} if name != "known" else {**arrays, name: array[None]}
    if way == "rank":
        return f"{name}: another rank", {**arrays, name: array[None]}
    if way == "odd":
        value = draw.choice([value for value in ODD if isinstance(value, int | float | str)])
        return f"{name}: {str(value)[:20]!r}", {**arrays, name: np.array([value] * 2).reshape(2, 1, 1, 1, 1)}
    other = "float32" if array.dtype.kind in "ifb" else "S9"
    return f"{name}: {other}", {**arrays, name: np.zeros(array.shape, other)}
