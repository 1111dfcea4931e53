"""What hypotheses hold, kept as back-pointers: a step adds its symbols, and nothing is ever moved.

Shapes: B sentences, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["ROOT", "History"]

import functools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = -1
"""The symbol before the first"""


@dataclass(frozen=True)
class Step:
    """The symbols of one step, numbered from `first`."""

    first: int
    token: Tensor
    log_prob: Tensor
    parent: Tensor

    @functools.cached_property
    def on_host(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Flat arrays, brought over once; on a CPU these are the same memory."""
        token, log_prob, parent = (t.detach().cpu().flatten().numpy() for t in (self.token, self.log_prob, self.parent))
        return token, log_prob, parent


class History:
    """Symbols by number, each with the number of the one before it."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.n_added = 0

    def add(self, token: Tensor, log_prob: Tensor, parent: Tensor) -> Tensor:
        """The numbers of the newest symbols, which follow the symbols `parent`; all [B, K]."""
        self.steps.append(Step(self.n_added, token, log_prob, parent))
        self.n_added += token.numel()
        return torch.arange(self.n_added - token.numel(), self.n_added, device=token.device).view(token.shape)

    def forget(self, before: int) -> None:
        """Drop the steps whose symbols all have smaller numbers."""
        while len(self.steps) > 1 and self.steps[1].first <= before:
            self.steps.popleft()

    def symbols(self, number: int) -> tuple[list[int], list[float]]:
        """The symbols up to this one, and their log-probabilities."""
        tokens, log_probs = [], []
        for step in reversed(self.steps):
            if number == ROOT:
                break
            if number < step.first:
                continue
            token, log_prob, parent = step.on_host
            place = number - step.first
            tokens.append(int(token[place]))
            log_probs.append(float(log_prob[place]))
            number = int(parent[place])
        return tokens[::-1], log_probs[::-1]
