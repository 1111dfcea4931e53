"""Which pairs of a corpus are dropped: the rules, and the one place where they decide."""

from __future__ import annotations

__all__ = ["EMPTY", "LengthLimits", "PairRules", "TextRule"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from s2s.data.columns import TextColumns, usable
from s2s.errors import PluginError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMPTY = "empty after encoding"
TextRule = Callable[[Sequence[Example]], Sequence[str]]
"""Why each of some pairs is dropped; empty: it is kept. It is called in several threads, with any neighbours"""


@dataclass(frozen=True)
class LengthLimits:
    """Which pairs are dropped by their numbers of tokens; without limits only those with an empty side."""

    max_len: int | None = None
    """Tokens of either side, eos included"""
    max_ratio: float | None = None
    cut_context: int | None = None
    """Tokens of a source, eos included, that previous texts may fill; the earliest of them are left out"""

    def reasons(
        self, src: NDArray[np.int64], tgt: NDArray[np.int64], context: NDArray[np.int64] | int = 0
    ) -> dict[str, NDArray[np.bool_]]:
        """The pairs to drop by reason, each under its first reason: lengths [n] without eos -> bool [n] per reason.

        context: how much of `src` [n] are previous texts, which have no part in the target.
        """
        shorter, longer = np.minimum(src - context, tgt), np.maximum(src - context, tgt)
        reasons = {EMPTY: shorter == 0}
        if self.max_len is not None:
            reasons[f"longer than data.max_len={self.max_len}"] = np.maximum(src, tgt) + 1 > self.max_len
        if self.max_ratio is not None:
            reasons[f"lengths over data.max_ratio={self.max_ratio:g}"] = longer > self.max_ratio * shorter
        gone = np.zeros(len(src), np.bool_)
        for reason, dropped in reasons.items():
            reasons[reason] = dropped & ~gone
            gone |= dropped
        return reasons


@dataclass(frozen=True)
class PairRules:
    """All rules of a split. A pair is dropped by the first that applies: its corpus could not use it, a rule of
    `texts`, then the limits of its lengths in tokens."""

    limits: LengthLimits = LengthLimits()
    texts: Sequence[TextRule] = ()

    def judge_texts(self, chunk: Sequence[Example | Rejected]) -> list[str]:
        """Why each pair is dropped before it is encoded; empty: it is not."""
        reasons = _rejections(chunk)
        for rule in self.texts:
            left = [index for index, reason in enumerate(reasons) if not reason]
            found = rule(usable(chunk, left))
            if len(found) != len(left):
                raise PluginError(f"data.rules: a rule gave {len(found):,} reasons for {len(left):,} pairs")
            for index, reason in zip(left, found, strict=True):
                reasons[index] = reason
        return reasons

    def judge_lengths(
        self,
        reasons: Sequence[str],
        src: NDArray[np.int64],
        tgt: NDArray[np.int64],
        context: NDArray[np.int64] | int = 0,
    ) -> list[str]:
        """The reasons of `judge_texts`, with those of the lengths [n] of the n pairs that have none."""
        decided = list(reasons)
        found = {reason: gone for reason, gone in self.limits.reasons(src, tgt, context).items() if gone.any()}
        if not found:
            return decided
        left = np.array([index for index, reason in enumerate(reasons) if not reason], np.int64)
        for reason, gone in found.items():
            for index in left[gone].tolist():
                decided[index] = reason
        return decided


def _rejections(chunk: Sequence[Example | Rejected]) -> list[str]:
    """Why a corpus could not use each pair; empty: it could."""
    if not isinstance(chunk, TextColumns):
        return [pair.reason if isinstance(pair, Rejected) else "" for pair in chunk]
    reasons = [""] * len(chunk)
    for index, rejected in chunk.rejected.items():
        reasons[index] = rejected.reason
    return reasons
