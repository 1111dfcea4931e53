"""The stacks of hypotheses, one slot after the other, and what a token does to them.

Shapes: B sentences, K hypotheses, D slots, E = d_item, L layers, H = d_model, N brackets that close, C most children.
"""

from __future__ import annotations

__all__ = ["Change", "Closing", "Stack"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.tensors import host_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Effect

NOTHING, TAKES, OPENS, WRAPS, CLOSES = range(5)
NUMBERS: dict[Effect, int] = {"nothing": NOTHING, "takes": TAKES, "opens": OPENS, "wraps": WRAPS, "closes": CLOSES}
CLOSED, OPEN, WRAPPING = range(3)
"""What is in a slot: a word or a closed bracket; an open one; an open one whose first child is in the slot before"""
ROOM = 8
"""Extra slots that are added when one is missing"""


class Change(NamedTuple):
    """What a token does to each stack, each [B, K]."""

    takes: Tensor
    pushes: Tensor
    base: Tensor
    """The last slot that stays; the pushed item follows it"""
    closes: Tensor
    innermost: Tensor
    """The slot of the innermost open bracket; 0: none"""
    opened: Tensor
    """CLOSED, OPEN or WRAPPING: what the pushed slot holds"""


class HostChange(NamedTuple):
    """What decides how much is computed, each [B, K], on the host."""

    base: Tensor
    closes: Tensor
    innermost: Tensor
    depth: Tensor
    """That of the stacks before the change"""


class Closing(NamedTuple):
    """The brackets that close, and their contents."""

    rows: tuple[Tensor, Tensor]
    """Their sentences and hypotheses, each [N]"""
    labels: Tensor
    """[N, E]"""
    children: Tensor
    """[N, C, E]"""
    n_children: Tensor
    """[N]"""


class Stack(NamedTuple):
    """Slot 0 holds the guard; slots after `depth` are arbitrary."""

    depth: Tensor
    """[B, K], the last item's slot"""
    taken: Tensor
    """[B, K], words taken"""
    opened: Tensor
    """[B, K, D]"""
    items: Tensor
    """[B, K, D, E]"""
    states: Tensor
    """[B, K, D, L, 2, H], of the LSTM that has read the items up to here"""

    @classmethod
    def empty(cls, n_sentences: int, guard: Tensor, state: Tensor) -> Stack:
        """guard [E] and the state after it [L, 2, H] -> K = 1"""
        room = (n_sentences, 1, ROOM)
        zero = torch.zeros(n_sentences, 1, dtype=torch.long, device=guard.device)
        items, states = guard.expand(*room, -1), state.expand(*room, -1, -1, -1)
        return cls(zero, zero, zero[..., None].expand(room).clone(), items.clone(), states.clone())

    def change(self, effect: Tensor) -> Change:
        """effect [B, K]. Closing without an open bracket does nothing; wrapping no item only opens."""
        slots = torch.arange(self.opened.size(-1), device=effect.device)
        is_open = (self.opened != CLOSED) & (slots <= self.depth[..., None])
        innermost = torch.where(is_open, slots, 0).amax(-1)
        closes = (effect == CLOSES) & (innermost > 0)
        base = torch.where(closes, innermost - 1 - (self._opened(innermost) == WRAPPING).long(), self.depth)
        has_first = (self.depth > 0) & (self._opened(self.depth) == CLOSED)
        wraps = (effect == WRAPS) & has_first
        opens = (effect == OPENS) | (effect == WRAPS)
        takes = effect == TAKES
        return Change(takes, takes | opens | closes, base, closes, innermost, opens.long() * OPEN + wraps.long())

    def read(self, change: Change) -> HostChange:
        """What the host needs of a change, for which it waits once."""
        return HostChange(*host_copies([change.base, change.closes, change.innermost, self.depth]))

    def closing(self, change: HostChange) -> Closing | None:
        """None: no bracket closes."""
        rows = change.closes.nonzero(as_tuple=True)
        if not len(rows[0]):
            return None
        base, innermost, depth = (x[rows] for x in (change.base, change.innermost, change.depth))
        n_children = depth - base - 1
        child = torch.arange(max(1, int(n_children.max())))
        before = (innermost - base == 2)[:, None] & (child == 0)  # the first child of a wrapping bracket
        slots = (base[:, None] + 2 + child - before.long()).clamp(max=self.items.size(2) - 1)
        device = self.items.device
        sentences, hypotheses = (x.to(device) for x in rows)
        labels = self.items[sentences, hypotheses, innermost.to(device)]
        children = self.items[sentences[:, None], hypotheses[:, None], slots.to(device)]
        return Closing((sentences, hypotheses), labels, children, n_children.to(device))

    def pushed(self, change: Change, item: Tensor, state: Tensor) -> Stack:
        """The stacks with item [B, K, E] and state [B, K, L, 2, H] in the slot after the base, if the token pushes.

        There must be room for it.
        """
        at = change.base + 1
        return Stack(
            torch.where(change.pushes, at, self.depth),
            self.taken + change.takes.long(),
            written(self.opened, at, change.opened),
            written(self.items, at, item),
            written(self.states, at, state),
        )

    def with_room(self, n_slots: int) -> Stack:
        """The stacks with at least `n_slots` slots."""
        missing = n_slots - self.opened.size(-1)
        if missing <= 0:
            return self
        room = missing + ROOM
        return self._replace(
            opened=F.pad(self.opened, (0, room)),
            items=F.pad(self.items, (0, 0, 0, room)),
            states=F.pad(self.states, (0, 0) * 3 + (0, room)),
        )

    def state(self, slot: Tensor) -> Tensor:
        """[B, K] -> [B, K, L, 2, H]"""
        index = slot[..., None, None, None, None].expand(-1, -1, 1, *self.states.shape[3:])
        return self.states.gather(2, index).squeeze(2)

    def _opened(self, slot: Tensor) -> Tensor:
        """[B, K] -> [B, K]"""
        return self.opened.gather(-1, slot[..., None]).squeeze(-1)


def numbers(effects: Sequence[Effect], n_tokens: int) -> Tensor:
    """Numbers of effects [V], by target id"""
    return torch.tensor([NUMBERS[effect] for effect in effects[:n_tokens]])


def written(slots: Tensor, at: Tensor, value: Tensor) -> Tensor:
    """slots [B, K, D, ...], at [B, K], value [B, K, ...] -> slots with the values"""
    index = at.reshape(*at.shape, *[1] * (slots.dim() - 2)).expand(-1, -1, 1, *slots.shape[3:])
    return slots.scatter(2, index, value.unsqueeze(2).to(slots.dtype))
