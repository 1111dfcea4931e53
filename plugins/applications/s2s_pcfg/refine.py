"""Splitting substates, and merging again those whose split gains little (Petrov et al., 2006, section 2).

Shapes: N nodes, X symbols, K substates, R rules.
"""

from __future__ import annotations

__all__ = ["merge", "split", "train"]

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s_pcfg.em import Schedule, expectation
from s2s_pcfg.grammar import normalised, smoothed

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_pcfg.em import Expectation
    from s2s_pcfg.grammar import Grammar


class Plan(NamedTuple):
    """How a grammar is trained."""

    n_splits: int
    """Number of times all substates are split in two"""
    n_iterations: int
    """Iterations of EM after a split; half as many after a merge"""
    merge_share: float
    """Share of the splits that are merged again"""
    smoothing: float
    lexical_smoothing: float
    noise: float
    """Largest relative change of a rule by the split"""


def train(grammar: Grammar, schedule: Schedule, plan: Plan, seed: int, report: Callable[[str], None]) -> Grammar:
    """Rounds of split, EM, merge, EM and smoothing, starting from a grammar with one substate per symbol."""
    draw = torch.Generator().manual_seed(seed)
    grammar, _ = iterate(grammar, schedule, 1, report, "treebank grammar")
    for number in range(1, plan.n_splits + 1):
        grammar = split(grammar, plan.noise, draw)
        grammar, last = iterate(grammar, schedule, plan.n_iterations, report, f"split {number}")
        if plan.merge_share:
            grammar = merge(last.counts, grammar, merge_losses(grammar, schedule, last), plan.merge_share)
            grammar, _ = iterate(grammar, schedule, max(plan.n_iterations // 2, 1), report, f"merge {number}")
        grammar = smoothed(grammar, plan.smoothing, plan.lexical_smoothing)
    return grammar


def iterate(
    grammar: Grammar, schedule: Schedule, n: int, report: Callable[[str], None], what: str
) -> tuple[Grammar, Expectation]:
    """The grammar after `n` iterations of EM, and the E-step of that grammar."""
    counts = expectation(grammar, schedule)
    for _ in range(n):
        grammar = normalised(counts.counts)
        counts = expectation(grammar, schedule)
    n_sub = int(grammar.n_substates.sum())
    report(
        f"{what}: {n_sub:,} substates of {len(grammar.symbols)} symbols, log-likelihood {counts.log_likelihood:,.0f}"
    )
    return grammar, counts


def split(grammar: Grammar, noise: float, draw: torch.Generator) -> Grammar:
    """Substate k becomes 2 k and 2 k + 1, with a little noise on the rules so that EM can separate them."""
    double = lambda p, *dims: _repeated(p, dims)  # noqa: E731

    def noisy(p: Tensor) -> Tensor:
        return p * (1 + noise * (2 * torch.rand(p.shape, generator=draw, dtype=p.dtype) - 1))

    return normalised(
        replace(
            grammar,
            n_substates=2 * grammar.n_substates,
            p_root=double(grammar.p_root, 1) / 2,
            p_binary=noisy(double(grammar.p_binary, 1, 2, 3) / 4),
            p_unary=noisy(double(grammar.p_unary, 1, 2) / 2),
            p_lexical=noisy(double(grammar.p_lexical, 1)),
        )
    )


def merge_losses(grammar: Grammar, schedule: Schedule, counts: Expectation) -> Tensor:
    """[X, K / 2]: loss of log-likelihood from merging substates 2 k and 2 k + 1, approximated for each node separately
    (section 2.2) by the product of the ratios of P with the two merged to P."""
    symbol, weight, k = schedule.forest.symbol, schedule.forest.weight[:, None], grammar.k
    posterior = torch.zeros_like(grammar.p_root).index_add_(0, symbol, weight * counts.inside * counts.outside)
    share = posterior.unflatten(1, (k // 2, 2))
    share = share / share.sum(-1, keepdim=True).clamp(min=1e-300)  # [X, K / 2, 2], how often each is used
    inside, outside = (t.unflatten(1, (k // 2, 2)) for t in (counts.inside, counts.outside))
    merged = (inside * share[symbol]).sum(-1) * outside.sum(-1)  # [N, K / 2]
    ratio = 1 - (inside * outside).sum(-1) + merged
    return torch.zeros(len(grammar.symbols), k // 2, dtype=torch.double).index_add_(
        0, symbol, -weight * ratio.clamp(min=1e-300).log()
    )


def merge(counts: Grammar, grammar: Grammar, losses: Tensor, share: float) -> Grammar:
    """Merge the `share` of the splits with the smallest losses; `counts` are the expected counts of the rules."""
    pairs = torch.arange(losses.size(1)) < grammar.n_substates[:, None] // 2  # [X, K / 2]
    order = losses.masked_fill(~pairs, torch.inf).flatten().argsort(stable=True)
    merged = torch.zeros(losses.numel(), dtype=torch.bool)
    merged[order[: int(share * int(pairs.sum()))]] = True
    merged = merged.view_as(losses)
    kept = torch.stack([torch.ones_like(merged), ~merged], -1).flatten(1) & grammar.real  # [X, K], opens a substate
    new = (kept.cumsum(1) - 1).clamp(min=0)  # [X, K], the substate that each becomes
    n_substates = kept.sum(1)
    k = int(n_substates.max())
    to = torch.zeros(*new.shape, k, dtype=torch.double).scatter_(2, new[..., None], 1.0) * grammar.real[..., None]
    upper, left, right = counts.binary.T
    pooled = torch.einsum("rijk,rid->rdjk", counts.p_binary, to[upper])
    pooled = torch.einsum("rdjk,rje->rdek", pooled, to[left])
    return normalised(
        replace(
            counts,
            n_substates=n_substates,
            p_root=torch.einsum("xi,xid->xd", counts.p_root, to),
            p_binary=torch.einsum("rdek,rkf->rdef", pooled, to[right]),
            p_unary=torch.einsum("rij,rid,rje->rde", counts.p_unary, to[counts.unary[:, 0]], to[counts.unary[:, 1]]),
            p_lexical=torch.einsum("ri,rid->rd", counts.p_lexical, to[counts.lexical[:, 0]]),
        )
    )


def _repeated(p: Tensor, dims: tuple[int, ...]) -> Tensor:
    for dim in dims:
        p = p.repeat_interleave(2, dim)
    return p
