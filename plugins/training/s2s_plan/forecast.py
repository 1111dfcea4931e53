"""Forecast of a run before it begins: epochs, hours, and settings that look like mistakes."""

from __future__ import annotations

__all__ = ["Forecast", "forecast", "rare_tokens"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.config import format_duration
from s2s_plan.run_length import MOST_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from s2s import Seq2Seq, Vocab
    from s2s.config import Config
    from s2s.data import MappedCorpus
    from s2s.training import Trainer

DAYS = 7
RARE, MOST_RARE = 10, 0.25
"""A token with fewer occurrences in the training text has a poorly trained embedding; a vocabulary with a larger share
of such tokens is too large for the text. WMT14 with 37,000 has 1%"""
SMALL = 2000
"""Size up to which a vocabulary is never too large"""
N_COUNTED = 20_000_000
"""Tokens of each side that are counted; in a larger corpus, none is rare"""
N_LENGTHS = 10_000
"""Number of sampled pairs whose lengths represent the corpus"""
ESTIMATED = 1.5
"""Factor by which a plan may exceed MOST_EPOCHS: its recipe estimates the tokens of a text not yet encoded"""


@dataclass(frozen=True)
class Forecast:
    """What follows from the data and the configuration."""

    epochs: float
    n_pairs: int
    """Pairs of an epoch, in which each is as often as the weight of its corpus says"""
    seconds_at_least: float
    """Lower bound from the rate of large matrix products, which no training reaches; 0: unknown"""
    rare: dict[str, tuple[int, float]]
    """Vocabulary -> its size, share of its tokens that occur fewer than RARE times in the training text"""

    def describe(self, config: Config, seconds: float) -> Iterator[str]:
        """Lines of a dry run; seconds: of an update."""
        steps = config.train.steps
        yield f"{self.epochs:,.1f} epochs of {self.n_pairs:,} pairs"
        for what, every in (("validation", config.valid.every), ("checkpoint", config.checkpoint.every)):
            first = seconds * min(every or steps, steps)
            minutes = config.checkpoint.minutes if what == "checkpoint" else 0
            yield f"first {what} after {format_duration(min(first, 60 * minutes or first))}"

    def warnings(self, config: Config, seconds: float = 0.0, *, planned: bool = False) -> Iterator[str]:
        """Warnings about settings that the user may not have intended.

        seconds: of an update, where they were measured; planned: whether a recipe chose the number of updates.
        """
        steps, most_epochs = config.train.steps, MOST_EPOCHS * (ESTIMATED if planned else 1)
        days = max(self.seconds_at_least, seconds * steps) / 86_400
        if self.epochs > most_epochs:
            enough = max(int(steps * MOST_EPOCHS / self.epochs), 1)
            yield (
                f"train.steps={steps:,} is {self.epochs:,.0f} epochs of {self.n_pairs:,} pairs, long after the model "
                f"knows them by heart; give train.steps={enough:,} or fewer, or valid.patience=5"
            )
        by_recipe = "" if config.recipe.name == "auto" else ", or recipe=auto"
        for name, (size, share) in self.rare.items():
            if size > SMALL and share > MOST_RARE and not config.data.tokenizer:
                yield (
                    f"{share:.0%} of the {size:,} tokens of the {name} vocabulary stand fewer than {RARE} times in the "
                    f"training text: it is too large for so little text; give a smaller one{by_recipe}"
                )
        if days > DAYS:
            yield (
                f"this will take {days:,.0f} days here{'' if seconds else ' at the very least'}; give "
                "train.budget=8h, a smaller model, or fewer train.steps"
            )
        warmup, least = getattr(config.schedule, "warmup", 0), max(steps // 10, 1)
        if least < warmup and 0 < steps < 2 * warmup:
            yield (
                f"schedule.warmup={warmup:,} is more than half of train.steps={steps:,}: the learning rate "
                f"barely reaches its peak; give schedule.warmup={least:,}"
            )


def forecast(trainer: Trainer) -> Forecast:
    """The forecast of a run, assuming completely filled batches."""
    config, step = trainer.config, trainer.train_step
    batches: Any = trainer.data_loader.batches  # in a run, all corpora are memory-mapped
    corpora = [(corpus, float(weight)) for corpus, weight in zip(batches.corpora, batches.weights, strict=True)]
    n_pairs = round(sum(weight * len(corpus) for corpus, weight in corpora))
    tokens = [sum(weight * (corpus.n_ids[side] + len(corpus)) for corpus, weight in corpora) for side in (0, 1)]
    updates = max(max(tokens) / config.train.n_tokens, 1.0)  # no batch has pairs of two epochs
    seconds = 0.0
    operations = _operations_of_an_epoch(step.model, corpora)
    if trainer.peak_flops and operations:
        seconds = config.train.steps / updates * operations / trainer.peak_flops
    return Forecast(config.train.steps / updates, n_pairs, seconds, rare_tokens(step.vocab, corpora))


def rare_tokens(vocab: Vocab, corpora: Sequence[tuple[MappedCorpus, float]]) -> dict[str, tuple[int, float]]:
    """Each vocabulary's size, and the share of its tokens that occur fewer than RARE times.

    Leaves out a source vocabulary whose words training replaces by `unk`, rare ones most often: the task handles them.
    """
    counts = [_counts(corpora, side, size) for side, size in ((0, vocab.src), (1, vocab.tgt))]
    if vocab.joint:
        counts, names = [counts[0] + counts[1]], ["joint"]
    else:
        names = ["source", "target"]
    special = 4
    return {
        name: (len(n), float((n[special:] < RARE).mean()) if len(n) > special else 0.0)
        for name, n in zip(names, counts, strict=True)
        if name != "source" or not vocab.unknown
    }


def _counts(corpora: Sequence[tuple[MappedCorpus, float]], side: int, size: int) -> NDArray[np.int64]:
    counts, left = np.zeros(size, np.int64), N_COUNTED
    for corpus, _ in corpora:
        ids = corpus.ids(side, left)
        left -= len(ids)
        counts += np.bincount(ids, minlength=size)[:size]
    return counts


def _operations_of_an_epoch(model: Seq2Seq, corpora: Sequence[tuple[MappedCorpus, float]]) -> float | None:
    """Operations of the forward and backward passes, estimated from a sample of the pairs."""
    total = 0.0
    for corpus, weight in corpora:
        n = len(corpus)
        if n == 0:
            continue
        rows = np.arange(0, n, max(n // N_LENGTHS, 1))
        src, tgt = (lengths + 1 for lengths in corpus.lengths(rows))
        forward = model.forward_operations(src.tolist(), tgt.tolist())
        if forward is None:
            return None
        total += 3 * forward * weight * n / len(rows)
    return total
