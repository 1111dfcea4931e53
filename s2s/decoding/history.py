"""The tokens of all hypotheses as back-pointers: a step appends its tokens, and nothing is moved but to the host.

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

from s2s.tensors import host_copies

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = -1
"""The node before the first token"""


@dataclass
class Step:
    """The nodes of one step, [B, K], or of several, [n], in order, numbered from `first`."""

    first: int
    token: Tensor
    log_prob: Tensor
    """Of each token"""
    parent: Tensor
    """The node before each, or ROOT"""

    @functools.cached_property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """token, log_prob and parent, [n], once they are on the host, where they share the tensors' memory."""
        token, log_prob, parent = (t.detach().flatten().numpy() for t in (self.token, self.log_prob, self.parent))
        return token, log_prob, parent


class History:
    """Numbered nodes, each a token and the number of the node before it."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.n_nodes = 0

    def add(self, token: Tensor, log_prob: Tensor, parent: Tensor) -> Tensor:
        """The numbers of new nodes that follow the nodes `parent`; all [B, K]."""
        self.steps.append(Step(self.n_nodes, token, log_prob, parent))
        self.n_nodes += token.numel()
        return torch.arange(self.n_nodes - token.numel(), self.n_nodes, device=token.device).view(token.shape)

    def add_steps(self, token: Tensor, log_prob: Tensor, parent: Tensor) -> None:
        """Append nodes [n] that are already numbered from `n_nodes` on; their parents may be among them."""
        self.steps.append(Step(self.n_nodes, token, log_prob, parent))
        self.n_nodes += token.numel()

    def drop_before(self, node: int) -> None:
        """Free the steps whose nodes all have smaller numbers."""
        while len(self.steps) > 1 and self.steps[1].first <= node:
            self.steps.popleft()

    def fetch(self, *others: Tensor) -> list[Tensor]:
        """Move to the host what is not there yet, and with it, in the same transfer, copies of other tensors."""
        steps = [step for step in self.steps if not step.token.is_cpu]
        fields = [x for step in steps for x in (step.token, step.log_prob, step.parent)]
        copies = host_copies([*fields, *others])
        for i, step in enumerate(steps):
            step.token, step.log_prob, step.parent = copies[3 * i : 3 * i + 3]
        return copies[len(fields) :]

    def backtrace(self, node: int) -> tuple[list[int], list[float]]:
        """The tokens from the first to this node's, and their log-probabilities; `fetch` must have been called."""
        tokens, log_probs = [], []
        for step in reversed(self.steps):
            if node == ROOT:
                break
            if node < step.first:
                continue
            token, log_prob, parent = step.arrays
            while node >= step.first:
                position = node - step.first
                tokens.append(int(token[position]))
                log_probs.append(float(log_prob[position]))
                node = int(parent[position])
        return tokens[::-1], log_probs[::-1]
