"""How often the best output stays the best when its own beginning is required: cut within words, and at their ends.

python benchmarks/prefixes.py runs/demo unseen.en [--prefixes 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import random
from pathlib import Path
from typing import TYPE_CHECKING

import s2s
from s2s.generation import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation import Output


def cuts(output: str, *, within: bool) -> list[int]:
    """Lengths of beginnings of an output that end within words, or at their ends."""
    pairs = itertools.pairwise(output)
    return [i + 1 for i, (before, after) in enumerate(pairs) if before.isalnum() and after.isalnum() == within]


def compare(model: s2s.TrainedModel, outputs: Sequence[Output], lengths: Sequence[int]) -> tuple[int, int]:
    """How many outputs are found again with the prefix of that length, and how many give way to a better one."""
    inputs = [Input(out.src, prefix=out.hyp[:n]) for out, n in zip(outputs, lengths, strict=True)]
    pairs = list(zip(model.generate(inputs), outputs, strict=True))
    kept = sum(again.hyp == out.hyp for again, out in pairs)
    return kept, sum(again.hyp != out.hyp and again.score > out.score for again, out in pairs)


def main() -> None:
    """Print both rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("input")
    parser.add_argument("--prefixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    model, draw = s2s.load(arguments.run), random.Random(arguments.seed)
    outputs = list(model.generate(Path(arguments.input).read_text().splitlines()))
    for name, within in (("within words", True), ("at ends of words", False)):
        every = [(out, n) for out in outputs for n in cuts(out.hyp, within=within)]
        bests, lengths = zip(*draw.sample(every, min(arguments.prefixes, len(every))), strict=True)
        kept, better = compare(model, bests, lengths)
        print(f"{name}: of {len(lengths):,} outputs {kept:,} kept, {better:,} replaced by one of a better score")


if __name__ == "__main__":
    main()
