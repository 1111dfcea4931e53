"""Expectation maximisation over trees with latent substates: inside and outside vectors of all trees at once.

Nodes of one height are computed together. Inside vectors are normalised to sum 1, and outside vectors such that their
product with the inside vectors sums to 1, so that long sentences do not underflow; the logarithms of the factors add
up to the log-likelihood.

Shapes: N nodes of all trees, n in a chunk, K substates.
"""

from __future__ import annotations

__all__ = ["Expectation", "Schedule", "expectation"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s_pcfg.treebank import Forest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_pcfg.grammar import Grammar

CHUNK = 1 << 24
"""Maximum number of gathered rule probabilities held at a time"""


class Expectation(NamedTuple):
    """The result of an E-step."""

    counts: Grammar
    """Expected counts, in the fields of the probabilities"""
    log_likelihood: float
    """Of all trees by their weights, in nats"""
    inside: Tensor
    """[N, K]"""
    outside: Tensor
    """[N, K]"""


@dataclass(frozen=True)
class Schedule:
    """The nodes in the order of computation."""

    forest: Forest
    words: Tensor
    levels: list[tuple[Tensor, Tensor]]
    """Unary and binary nodes of each height, from 1"""

    @classmethod
    def of(cls, forest: Forest) -> Schedule:
        """The nodes of a forest, ordered by height."""
        binary, inner = forest.right >= 0, forest.left >= 0
        order = forest.height.argsort(stable=True)
        groups = order.split(forest.height.bincount().tolist())
        levels = [(nodes[inner[nodes] & ~binary[nodes]], nodes[binary[nodes]]) for nodes in groups[1:]]
        return cls(forest, (~inner).nonzero()[:, 0], levels)

    def chunks(self, nodes: Tensor, size: int) -> Iterator[Tensor]:
        """Chunks whose gathered rules fit into CHUNK."""
        return iter(nodes.split(max(CHUNK // size, 1))) if len(nodes) else iter(())


def expectation(grammar: Grammar, schedule: Schedule) -> Expectation:
    """Expected counts of all rules given the trees, each by its weight, and the trees' likelihood."""
    inside, scale = _inside(grammar, schedule)
    roots, weight = schedule.forest.roots, schedule.forest.weight
    at_roots = grammar.p_root[schedule.forest.symbol[roots]]  # [trees, K]
    joint = at_roots * inside[roots]
    log_likelihood = (weight * scale.log()).sum() + (weight[roots] * joint.sum(1).log()).sum()
    outside = _outside(grammar, schedule, inside, at_roots / joint.sum(1, keepdim=True))
    posterior = weight[roots, None] * joint / joint.sum(1, keepdim=True)
    p_root = torch.zeros_like(grammar.p_root).index_add_(0, schedule.forest.symbol[roots], posterior)
    counts = _counts(grammar, schedule, inside, weight[:, None] * outside / scale[:, None])
    return Expectation(replace(counts, p_root=p_root), log_likelihood.item(), inside, outside)


def _inside(grammar: Grammar, schedule: Schedule) -> tuple[Tensor, Tensor]:
    """[N, K], normalised to sum 1, and the sums [N] before normalisation."""
    forest, k = schedule.forest, grammar.k
    inside, scale = (
        torch.zeros(len(forest.rule), k, dtype=torch.double),
        torch.ones(len(forest.rule), dtype=torch.double),
    )

    def put(nodes: Tensor, values: Tensor) -> None:
        total = values.sum(1)
        inside[nodes], scale[nodes] = values / total[:, None], total

    put(schedule.words, grammar.p_lexical[forest.rule[schedule.words]])
    for unary, binary in schedule.levels:
        for n in schedule.chunks(unary, k**2):
            put(n, torch.einsum("nij,nj->ni", grammar.p_unary[forest.rule[n]], inside[forest.left[n]]))
        for n in schedule.chunks(binary, k**3):
            pair = inside[forest.left[n]][:, :, None] * inside[forest.right[n]][:, None]  # [n, K, K]
            put(n, torch.bmm(grammar.p_binary[forest.rule[n]].flatten(2), pair.flatten(1)[..., None])[..., 0])
    return inside, scale


def _outside(grammar: Grammar, schedule: Schedule, inside: Tensor, at_roots: Tensor) -> Tensor:
    """[N, K], such that its product with the inside vectors sums to 1 at each node."""
    forest, k = schedule.forest, grammar.k
    outside = torch.zeros_like(inside)
    outside[forest.roots] = at_roots

    def put(nodes: Tensor, values: Tensor) -> None:
        outside[nodes] = values / (values * inside[nodes]).sum(1, keepdim=True)

    for unary, binary in reversed(schedule.levels):
        for n in schedule.chunks(binary, k**3):
            left, right = forest.left[n], forest.right[n]
            down = torch.bmm(outside[n][:, None], grammar.p_binary[forest.rule[n]].flatten(2)).view(-1, k, k)
            put(left, torch.einsum("njk,nk->nj", down, inside[right]))
            put(right, torch.einsum("njk,nj->nk", down, inside[left]))
        for n in schedule.chunks(unary, k**2):
            put(forest.left[n], torch.einsum("nij,ni->nj", grammar.p_unary[forest.rule[n]], outside[n]))
    return outside


def _counts(grammar: Grammar, schedule: Schedule, inside: Tensor, outside: Tensor) -> Grammar:
    """Expected rule counts: a rule's probability times its nodes' sum of outside times the children's inside."""
    forest = schedule.forest
    binary = (forest.right >= 0).nonzero()[:, 0]
    unary = ((forest.right < 0) & (forest.left >= 0)).nonzero()[:, 0]
    p_binary, p_unary, p_lexical = (torch.zeros_like(p) for p in (grammar.p_binary, grammar.p_unary, grammar.p_lexical))
    for rule, n in _by_rule(forest, binary):
        pair = inside[forest.left[n]][:, :, None] * inside[forest.right[n]][:, None]
        p_binary[rule] = (outside[n].T @ pair.flatten(1)).view_as(p_binary[rule])
    for rule, n in _by_rule(forest, unary):
        p_unary[rule] = outside[n].T @ inside[forest.left[n]]
    p_lexical.index_add_(0, forest.rule[schedule.words], outside[schedule.words])
    return replace(
        grammar,
        p_binary=p_binary * grammar.p_binary,
        p_unary=p_unary * grammar.p_unary,
        p_lexical=p_lexical * grammar.p_lexical,
    )


def _by_rule(forest: Forest, nodes: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each rule with its nodes."""
    order = nodes[forest.rule[nodes].argsort(stable=True)]
    rules, sizes = forest.rule[order].unique_consecutive(return_counts=True)
    return zip(rules.tolist(), order.split(sizes.tolist()), strict=True)
