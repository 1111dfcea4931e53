"""Outputs whose own beginning or word is required: how often they stay the same, and what the constraint costs.

python benchmarks/prefixes.py runs/demo unseen.en [--prefixes 200] [--seed 1] [--wide 32] [--repeats 5]

Beginnings are cut within words, and at their ends. Where another output is found, it may have a better score: without a
prefix it fell out of the beam, in which hypotheses with other beginnings took its place. To tell, the same inputs are
searched without a prefix in a beam of --wide, which should then find as good a one. Costs are CPU time of the process
with one thread, medians of repetitions that take turns.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import torch

import s2s
from s2s.generation import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation import Output

TOLERANCE = 1e-4
"""Difference of scores that counts as none"""


def cuts(output: str, *, within: bool) -> list[int]:
    """Lengths of beginnings of an output that end within words, or at their ends."""
    pairs = itertools.pairwise(output)
    return [i + 1 for i, (before, after) in enumerate(pairs) if before.isalnum() and after.isalnum() == within]


def compare(model: s2s.TrainedModel, outputs: Sequence[Output], lengths: Sequence[int], wide: int) -> str:
    """What becomes of outputs whose beginnings of these lengths are required."""
    inputs = [Input(out.src, prefix=out.hyp[:n]) for out, n in zip(outputs, lengths, strict=True)]
    pairs = list(zip(model.generate(inputs), outputs, strict=True))
    others = [(again, out) for again, out in pairs if again.hyp != out.hyp]
    better = [again for again, out in others if again.score > out.score]
    widest = model.generate([again.src for again in better], search={"beam": wide})
    missed = sum(out.score > again.score - TOLERANCE for again, out in zip(better, widest, strict=True))
    return (
        f"of {len(pairs):,} outputs {len(pairs) - len(others):,} kept, {len(better):,} replaced by one of a better "
        f"score ({missed:,} of them, or a still better one, found without a prefix in a beam of {wide}), "
        f"{len(others) - len(better):,} by one of a worse score"
    )


def middle_word(output: str) -> str:
    """A word to require: the one in the middle."""
    words = [word.strip(".,;:?!\"'()") for word in output.split()]
    return words[len(words) // 2] if words else ""


def seconds(model: s2s.TrainedModel, inputs: Sequence[str | Input]) -> float:
    """CPU time of one pass."""
    begun = time.process_time()
    for _ in model.generate(inputs):
        pass
    return time.process_time() - begun


def costs(model: s2s.TrainedModel, outputs: Sequence[Output], repeats: int) -> dict[str, float]:
    """CPU seconds by what is required of the outputs."""
    tenths = enumerate(outputs)
    kinds: dict[str, list[str | Input]] = {
        "nothing": [out.src for out in outputs],
        "the first half": [Input(out.src, prefix=out.hyp[: len(out.hyp) // 2]) for out in outputs],
        "a word": [Input(out.src, phrases=(middle_word(out.hyp),)) for out in outputs],
        "a word of every tenth": [
            Input(out.src, phrases=() if i % 10 else (middle_word(out.hyp),)) for i, out in tenths
        ],
    }
    turns = [{name: seconds(model, inputs) for name, inputs in kinds.items()} for _ in range(repeats)]
    return {name: median(turn[name] for turn in turns) for name in kinds}


def main() -> None:
    """Print both rates, and the costs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("input")
    parser.add_argument("--prefixes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wide", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, draw = s2s.load(arguments.run), random.Random(arguments.seed)
    outputs = list(model.generate(Path(arguments.input).read_text().splitlines()))
    for name, within in (("within words", True), ("at ends of words", False)):
        every = [(out, n) for out in outputs for n in cuts(out.hyp, within=within)]
        bests, lengths = zip(*draw.sample(every, min(arguments.prefixes, len(every))), strict=True)
        print(f"{name}: {compare(model, bests, lengths, arguments.wide)}")
    measured = costs(model, outputs, arguments.repeats)
    for name, cost in measured.items():
        print(f"{name} required: {cost:.2f} s of CPU, {cost / measured['nothing']:.1f} times that of nothing")


if __name__ == "__main__":
    main()
