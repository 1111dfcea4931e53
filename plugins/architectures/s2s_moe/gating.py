"""Gating networks: which experts compute a token, with which weights, and how evenly they are used.

Shapes: N tokens, G groups of tokens over which the use of experts is summed, D width, E experts, k active ones; in a
hierarchy, a groups of b experts each. Equations and sections are those of Shazeer et al. (2017).
"""

from __future__ import annotations

__all__ = ["FlatGate", "Gates", "HierarchicalGate", "squared_variation", "sum_by_group"]

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Gates(NamedTuple):
    """The gates of some tokens."""

    experts: Tensor
    """[N, k], the active experts of each token"""
    weights: Tensor
    """[N, k], their gates, which sum to 1"""
    importance: Tensor | None
    """[G, E], sums of gates (equation 6); in training only, like the next one"""
    load: Tensor | None
    """[G, E], smooth estimates of the numbers of tokens (equation 10); None without noise"""


class NoisyTopK(nn.Module):
    """Noisy top-k gating (section 2.1) by one or several gating networks on the same tokens.

    Both weight matrices start at 0, so that at first only the noise decides (appendix A).
    """

    def __init__(self, d_model: int, shape: tuple[int, ...], k: int, *, noisy: bool) -> None:
        super().__init__()
        self.k, self.noisy = k, noisy
        self.gate = nn.Parameter(torch.zeros(d_model, *shape))
        self.noise = nn.Parameter(torch.zeros(d_model, *shape)) if noisy else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """x [N, D] -> active [N, …, k], gates [N, …, E] with zeros (equation 3), and P [N, …, E] (equation 8): the
        probability of being active if only the noise of this expert were drawn again."""
        clean = torch.tensordot(x, self.gate, 1)
        if self.noise is None or not self.training:
            return *self._top(clean, clean), None
        spread = F.softplus(torch.tensordot(x, self.noise, 1))
        noisy = clean + torch.randn_like(clean) * spread
        return *self._top(noisy, noisy), self._p_active(clean, noisy, spread)

    def _top(self, logits: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        active = logits.topk(self.k, dim=-1).indices
        weights = values.gather(-1, active).softmax(-1, dtype=torch.float32)
        return active, torch.zeros_like(values, dtype=torch.float32).scatter(-1, active, weights)

    def _p_active(self, clean: Tensor, noisy: Tensor, spread: Tensor) -> Tensor:
        """Equation 9: the threshold is the k-th largest of the OTHER experts' noisy logits."""
        top = noisy.topk(self.k + 1, dim=-1).values
        own_is_top = noisy > top[..., -1:]
        threshold = torch.where(own_is_top, top[..., -1:], top[..., -2:-1])
        return torch.special.ndtr(((clean - threshold) / spread).float())


class FlatGate(nn.Module):
    """One gating network over all experts."""

    def __init__(self, d_model: int, n_experts: int, k: int, *, noisy: bool) -> None:
        super().__init__()
        self.of_experts = NoisyTopK(d_model, (n_experts,), k, noisy=noisy)

    def forward(self, x: Tensor, group: Tensor | None, n_groups: int) -> Gates:
        """x [N, D]; group [N], the group of each token, n_groups for tokens to ignore; None: no sums"""
        active, gates, p_active = self.of_experts(x)
        weights = gates.gather(-1, active)
        if group is None:
            return Gates(active, weights, None, None)
        load = None if p_active is None else sum_by_group(p_active, group, n_groups)
        return Gates(active, weights, sum_by_group(gates, group, n_groups), load)


class HierarchicalGate(nn.Module):
    """A gating network over groups of experts, and one over the experts of each group (appendix B)."""

    def __init__(self, d_model: int, n_experts: int, n_groups: int, k: int, *, noisy: bool) -> None:
        super().__init__()
        self.n_members = n_experts // n_groups
        self.of_groups = NoisyTopK(d_model, (n_groups,), k, noisy=noisy)
        self.of_experts = NoisyTopK(d_model, (n_groups, self.n_members), k, noisy=noisy)

    def forward(self, x: Tensor, group: Tensor | None, n_groups: int) -> Gates:
        """As `FlatGate`; the gate of an expert is the product of the gates of both levels (equation 12)."""
        outer, outer_gates, outer_p = self.of_groups(x)  # [N, k], [N, a], [N, a]
        inner, inner_gates, inner_p = self.of_experts(x)  # [N, a, k], [N, a, b], [N, a, b]
        chosen = inner.gather(1, outer[..., None].expand(-1, -1, inner.size(-1)))  # [N, k, k]
        active = (outer[..., None] * self.n_members + chosen).flatten(1)
        gates = (outer_gates[..., None] * inner_gates).flatten(1)  # [N, E]
        weights = gates.gather(-1, active)
        if group is None:
            return Gates(active, weights, None, None)
        load = None
        if outer_p is not None and inner_p is not None:
            sent = torch.zeros_like(outer_gates).scatter(-1, outer, 1.0)  # [N, a], 1 where a group is active
            n_sent = sum_by_group(sent, group, n_groups)  # [G, a], |X^(i)| of equation 14
            inner_load = sum_by_group(sent[..., None] * inner_p, group, n_groups)
            outer_load = sum_by_group(outer_p, group, n_groups)
            load = (outer_load[..., None] * inner_load / n_sent.clamp(min=1)[..., None]).flatten(1)
        return Gates(active, weights, sum_by_group(gates, group, n_groups), load)


def sum_by_group(values: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """values [N, …], group [N] -> [G, …]; tokens whose group is n_groups are ignored."""
    total = values.new_zeros((n_groups + 1, *values.shape[1:]))
    return total.index_add(0, group, values)[:n_groups]


def squared_variation(sums: Tensor) -> Tensor:
    """The squared coefficient of variation of each row: [G, E] -> [G]; 0 where all values are 0."""
    mean = sums.mean(-1)
    return sums.var(-1, unbiased=False) / mean.square().clamp(min=1e-10)
