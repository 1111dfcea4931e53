"""recipe=fine_tuning: how long a run takes that starts from the weights of another one, and when it stops."""

from __future__ import annotations

__all__ = ["fine_tuning"]

from typing import TYPE_CHECKING

from s2s_plan.plan import Decision
from s2s_plan.run_length import VALIDATIONS, interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s import Choice
    from s2s_plan.situation import Situation

TOKENS_PER_WORD = 1.5
"""Of a text that the vocabulary was not learnt from"""
LEAST_EPOCHS, MOST_EPOCHS, LEAST_UPDATES = 3, 40, 100
PATIENCE = 5
"""Validations without improvement, of some 20, after which the run stops"""
BATCHES, LEAST_BATCHES = (1024, 2048, 4096, 8192, 16_384, 25_000), 8
"""Tokens of a batch of a run whose start does not say how it was trained; batches that an epoch has at least"""


def fine_tuning(_: Choice) -> Callable[[Situation], Iterable[Decision]]:
    """The recipe."""
    return lambda situation: list(_decisions(situation))


def _decisions(situation: Situation) -> Iterator[Decision]:
    corpus, explicit = situation.fingerprint, situation.explicit
    tokens = explicit.get("train.tokens", situation.config.train.tokens)
    epoch = TOKENS_PER_WORD * corpus.epoch_words + corpus.epoch_pairs
    if "train.tokens" in situation.unset:
        tokens = max((n for n in BATCHES if n * LEAST_BATCHES <= epoch), default=BATCHES[0])
        yield Decision("train.tokens", tokens, f"{epoch:,.0f} tokens in an epoch")
    if "train.precision" in situation.unset and situation.hardware.is_fast_in_bf16:
        yield Decision("train.precision", "bf16", f"{situation.hardware.bf16 / 1e9:,.0f} GFLOP/s in bf16")
    epochs = min(max(MOST_EPOCHS * (max(corpus.epoch_words, 1) / 5_000) ** -0.4, LEAST_EPOCHS), MOST_EPOCHS)
    share = situation.config.data.replay_share
    if situation.replayed_pairs and not isinstance(explicit.get("train.init_replay"), int | float):
        share = min(share, situation.replayed_pairs / (situation.replayed_pairs + corpus.epoch_pairs))
        yield Decision("data.replay_share", round(share, 3), f"{situation.replayed_pairs:,.0f} pairs to mix in")
    updates = epochs * epoch / (1 - share) / tokens if isinstance(tokens, int) else LEAST_UPDATES
    steps = int(explicit.get("train.steps", max(round(updates), LEAST_UPDATES)))
    yield Decision("train.steps", steps, f"{epochs:,.0f} epochs of {corpus.epoch_pairs:,.0f} pairs")
    every, why = interval(steps), f"{VALIDATIONS} times in {steps:,} updates"
    yield Decision("valid.every", every, why)
    yield Decision("checkpoint.every", every, why)
    if "valid" in corpus.overlap:  # there is a development set
        yield Decision("valid.patience", PATIENCE, "the best checkpoint counts")
