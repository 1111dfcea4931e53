"""A third party's local plugin with one of everything that a run can choose, none of it shipped with s2s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s.metrics import Metric, Score
from s2s.objective import Context, Objective, Sums
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry
from s2s.task import Dependencies, Encoded, Example, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import nn

    from s2s.batch import Batch

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST = 4
"""Ids below are special"""


@dataclass(kw_only=True)
class ReversingConfig(Choice):
    """Words of a file, back to front."""

    file: str
    """One word a line."""
    weight: float = 1.0
    """How often an epoch sees each word."""
    judged: bool = True
    """Have a development set: the same words."""


class Reversing(Task):
    """Its symbols are the same whatever the file holds."""

    config: ReversingConfig
    metrics = ("exact",)

    def dependencies(self) -> Dependencies:
        return Dependencies(files=[Path(self.config.file)])

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        wanted = split == "train" or (split == "valid" and self.config.judged)
        return [("words", self.config.weight)] if wanted else []

    def examples(self, split: str, corpus: str) -> Iterator[Example]:
        words = Path(self.config.file).read_text().split()
        return (Example(word, word[::-1]) for word in words)

    def learn(self, directory: Path) -> None:
        (directory / "letters.txt").write_text(LETTERS)
        self.load(directory)

    def load(self, directory: Path) -> None:
        self.vocab = Vocab(src=FIRST + len(LETTERS), tgt=FIRST + len(LETTERS), joint=True)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([example.src, example.tgt])) for example in examples]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[FIRST + LETTERS.index(letter) for letter in line] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(LETTERS[i - FIRST] for i in ids if i >= FIRST)


@dataclass(kw_only=True)
class SawtoothConfig(Choice):
    """Up in equal steps, and down at once."""

    lr: float = 0.01
    """Highest rate."""
    length: int = 4
    """Updates of one tooth."""


def sawtooth(config: SawtoothConfig) -> Callable[[int], float]:
    return lambda step: config.lr * (1 + (step - 1) % config.length) / config.length


@dataclass(kw_only=True)
class SignsConfig(Choice):
    """Steps of one size, against the sign of a running mean."""

    decay: float = 0.5
    """Decay of the mean."""


class Signs(torch.optim.Optimizer):
    """Its state is a tensor and a number for each parameter."""

    def __init__(self, config: SignsConfig, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 0.0, "decay": config.decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                state["n_steps"] = state.get("n_steps", 0) + 1
                mean.lerp_(p.grad, 1 - group["decay"])
                p.sub_(mean.sign(), alpha=group["lr"])


@dataclass(kw_only=True)
class FocalConfig(Choice):
    """Symbols that are nearly certain count less (Lin et al., 2017)."""

    gamma: float = 1.0
    """How much less."""


class Focal(Objective):
    """-(1 - p) ** gamma * log p of each target token."""

    extras = ("nll",)

    def __init__(self, config: FocalConfig, context: Context) -> None:
        self.config, self.context = config, context

    def __call__(self, model: Any, batch: Batch) -> Sums:
        logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
        log_p = logits.float().log_softmax(-1).gather(-1, batch.tgt_out[..., None]).squeeze(-1)
        log_p = log_p.masked_fill(batch.tgt_pad, 0.0)
        loss = -((1 - log_p.exp()) ** self.config.gamma * log_p).sum()
        return Sums(loss, batch.n_tokens, {"nll": -log_p.detach().sum()})


class Exact(Metric):
    """Share of the outputs that are their references."""

    name = "exact"

    def __init__(self, config: Choice) -> None:
        self.config = config

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        right = sum(hyp == ref for hyp, ref in zip(hyps, refs[0], strict=True))
        return Score(self.name, 100 * right / len(hyps) if hyps else math.nan, "exact|v:1")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.task("reversing", ReversingConfig, Reversing)
    registry.schedule("sawtooth", SawtoothConfig, sawtooth)
    registry.optim("signs", SignsConfig, Signs)
    registry.objective("focal", FocalConfig, Focal)
    registry.metric("exact", Choice, Exact)
