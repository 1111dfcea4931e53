"""What all tokens of given outputs do to their stacks, arranged for batched computation.

A token that pushes makes a node. A node's vector needs those of its children; the stack's state at a node needs that of
the node below. So the vectors of all brackets of one height are computed together, then the states of all nodes of one
depth, over all sentences: the number of steps is the height of the trees plus the depth of the stacks, not the length
of the outputs.

Shapes: B sentences, T tokens of an output, N nodes of a group, C most children of one. Token t of sentence b is number
b T + t; so is the node that it makes.
"""

from __future__ import annotations

__all__ = ["Brackets", "Depth", "Plan", "plan"]

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from s2s.tensors import host_copy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Effect


class Brackets(NamedTuple):
    """Closed brackets of one height."""

    nodes: Tensor
    """[N]"""
    labels: Tensor
    """[N], the nodes that opened them"""
    children: Tensor
    """[N, C], nodes, then arbitrary numbers"""
    n_children: Tensor
    """[N]"""


class Depth(NamedTuple):
    """Nodes of one depth of the stack."""

    nodes: Tensor
    """[N]"""
    below: Tensor
    """[N], the node below each, as a row of the depth below"""


class Plan(NamedTuple):
    """Shapes: M words taken in all."""

    takers: Tensor
    """[M], nodes of words"""
    words: Tensor
    """[M], the position of each in its sentence"""
    taken: Tensor
    """[B, T], words taken by the tokens up to here"""
    heights: list[Brackets]
    """From brackets over words only, upwards"""
    depths: list[Depth]
    """From the items at the bottom, upwards; below them is the guard, the only row of depth 0"""
    tops: Tensor
    """[B, T], the last item, as a row of all depths concatenated, the guard first"""


class Item(NamedTuple):
    """An item of the stack."""

    node: int
    height: int
    opens: bool = False
    wraps: bool = False


def plan(tgt: Tensor, effects: Sequence[Effect]) -> Plan:
    """tgt [B, T]; effects by target id. Closing without an open bracket does nothing; wrapping no item only opens."""
    plans = _Plans()
    for b, tokens in enumerate(host_copy(tgt).tolist()):
        _Sentence(plans, b * tgt.size(1)).read([effects[token] for token in tokens])
    return plans.tensors(tgt)


class _Plans:
    """All sentences so far."""

    def __init__(self) -> None:
        self.words: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.tops: list[tuple[int, int]] = []
        """Depth and row in it; depth 0 is the guard"""
        self.heights: defaultdict[int, list[tuple[int, int, list[int]]]] = defaultdict(list)
        """Node, label, children"""
        self.depths: list[list[tuple[int, int]]] = []
        """Node and row below, by depth from 1"""

    def tensors(self, tgt: Tensor) -> Plan:
        make = lambda rows: torch.tensor(rows, dtype=torch.long)  # noqa: E731
        heights = []
        for _, group in sorted(self.heights.items()):
            nodes, labels, children = zip(*group, strict=True)
            padded = pad_sequence([make(nodes_of_one) for nodes_of_one in children], batch_first=True)
            heights.append(Brackets(make(nodes), make(labels), padded, make([len(c) for c in children])))
        firsts = [0, 1]
        for depth in self.depths:
            firsts.append(firsts[-1] + len(depth))
        takers, words = make(self.words).reshape(-1, 2).unbind(1)
        stack_plan = Plan(
            takers,
            words,
            make(self.taken).view_as(tgt),
            heights,
            [Depth(*make(depth).unbind(1)) for depth in self.depths],
            make([firsts[depth] + row for depth, row in self.tops]).view_as(tgt),
        )
        return stack_plan if tgt.device.type == "cpu" else _moved(stack_plan, tgt.device)


class _Sentence:
    """One output, token by token."""

    def __init__(self, plans: _Plans, first: int) -> None:
        self.plans, self.node, self.taken = plans, first, 0
        self.stack: list[Item] = []
        self.rows: list[int] = []
        """Of each item, its row among the nodes of its depth"""

    def read(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if effect == "takes":
                self.plans.words.append((self.node, self.taken))
                self.taken += 1
                self.push(Item(self.node, 0))
            elif effect in ("opens", "wraps"):
                wraps = effect == "wraps" and bool(self.stack) and not self.stack[-1].opens
                self.push(Item(self.node, 0, opens=True, wraps=wraps))
            elif effect == "closes":
                self.close()
            self.plans.taken.append(self.taken)
            self.plans.tops.append((len(self.stack), self.rows[-1] if self.rows else 0))
            self.node += 1

    def push(self, item: Item) -> None:
        depth, below = len(self.stack), self.rows[-1] if self.rows else 0
        if depth == len(self.plans.depths):
            self.plans.depths.append([])
        self.rows.append(len(self.plans.depths[depth]))
        self.plans.depths[depth].append((item.node, below))
        self.stack.append(item)

    def close(self) -> None:
        """Close the innermost open bracket, with the items after it and, if it wraps, the one before it."""
        at = next((at for at in range(len(self.stack) - 1, -1, -1) if self.stack[at].opens), None)
        if at is None:
            return
        first = at - self.stack[at].wraps
        label, children = self.stack[at].node, self.stack[first:at] + self.stack[at + 1 :]
        del self.stack[first:], self.rows[first:]
        height = 1 + max((child.height for child in children), default=0)
        self.plans.heights[height].append((self.node, label, [child.node for child in children]))
        self.push(Item(self.node, height))


def _moved(stack_plan: Plan, device: torch.device) -> Plan:
    """The plan on another device."""
    to = lambda tensors: type(tensors)(*(t.to(device, non_blocking=True) for t in tensors))  # noqa: E731
    takers, words, taken, tops = (
        t.to(device) for t in (stack_plan.takers, stack_plan.words, stack_plan.taken, stack_plan.tops)
    )
    return Plan(
        takers,
        words,
        taken,
        [to(group) for group in stack_plan.heights],
        [to(group) for group in stack_plan.depths],
        tops,
    )
