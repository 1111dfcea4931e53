"""The position of a partial linearised tree in its sentence: the next word, the last, and what is open on the stack.

Shapes: B sentences, K hypotheses, V target tokens, D depth bound.

The items of the stack are those of in-order parsing (Liu and Zhang, 2017); an item's left edge and label are packed
into one number, so that few small operations remain: (left + 1) * n_labels + label, and 0 for none. A task has a guide
also where no model reads it, so torch is not imported before states are. guide.c of s2s_cpu computes the same.
"""

from __future__ import annotations

__all__ = ["StackGuide"]

from typing import TYPE_CHECKING

from s2s import Effect, Guide
from s2s_parsing.linear import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from s2s_parsing.linear import Action

WORDS, DEPTH, FINISHED, TOP, STACK = range(5)
"""Parts of a state: words taken; brackets open; whether the last action finished an item; the last child of the
innermost bracket; from there on the open brackets, the innermost at `STACK + depth`, with one empty slot first."""
NONE, WORD = 0, 1
"""Labels that no bracket has"""
EFFECTS: dict[Kind, Effect] = {
    Kind.WORD: "takes",
    Kind.OPEN: "opens",
    Kind.PROJECT: "wraps",
    Kind.CLOSE: "closes",
}
CHANGES = tuple(EFFECTS.values())


class StackGuide(Guide):
    """Places: the next word, the last one, the left edges of the innermost bracket's last child, of that bracket, and
    of the one around it. Kinds: the labels of those three, and whether the last action finished an item.

    `actions`: the action of each target id; None for tokens without one. `depth`: maximum brackets open at once;
    brackets beyond it are forgotten.
    """

    n_places = 5

    def __init__(self, actions: Sequence[Action | None], depth: int) -> None:
        names = sorted({a.label for a in actions if a and a.kind in (Kind.OPEN, Kind.PROJECT) and a.label is not None})
        numbers = {name: number for number, name in enumerate(names, WORD + 1)}
        self.n_labels, self.depth = len(numbers) + WORD + 1, depth
        self.kinds = (self.n_labels, self.n_labels, self.n_labels, 2)
        self.effects = [EFFECTS[action.kind] if action else "nothing" for action in actions]
        self.labels = [numbers.get((action.label if action else None) or "", NONE) for action in actions]
        self._changes: dict[torch.device, Tensor] = {}

    def start(self, src: Tensor, pad: Tensor) -> Tensor:
        """[B, S] -> [B, 1, STACK + D + 2], nothing taken and nothing open."""
        del pad
        self._on(src.device)  # not first in `advance`: where that is compiled, it would be compiled twice
        return src.new_zeros(src.size(0), 1, STACK + self.depth + 2)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]; a bracket is always written above the stack, but only opening pushes it."""
        import torch

        word, opens, projects, closes, label = self._on(state.device)[token].unbind(-1)
        n_words, depth, finished, top = state[..., :STACK].unbind(-1)
        innermost = state.gather(-1, (STACK + depth)[..., None]).squeeze(-1)
        left = torch.where(projects > 0, top.div(self.n_labels, rounding_mode="floor"), n_words + 1)
        changed = (word | opens | closes) > 0
        child = word * ((n_words + 1) * self.n_labels + WORD) + closes * innermost  # 0 after opening: no child yet
        top = torch.where(changed, child, top)
        finished = torch.where(changed | (projects > 0), word | closes, finished)
        stack = state[..., STACK:].scatter(-1, (depth + 1)[..., None], (left * self.n_labels + label)[..., None])
        depth = (depth + opens + projects - closes).clamp(0, self.depth)
        return torch.cat([torch.stack([n_words + word, depth, finished, top], dim=-1), stack], dim=-1)

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """States [B, K, ·] -> places [B, K, 5], kinds [B, K, 4]"""
        import torch

        n_words, depth, finished, top = state[..., :STACK].unbind(-1)
        slots = torch.stack([depth, (depth - 1).clamp(min=0)], dim=-1)  # slot 0 is empty
        items = torch.cat([top[..., None], state[..., STACK:].gather(-1, slots)], dim=-1)  # [B, K, 3]
        lefts = items.div(self.n_labels, rounding_mode="floor") - 1
        places = torch.cat([torch.stack([n_words, n_words - 1], dim=-1), lefts], dim=-1)
        return places, torch.cat([items % self.n_labels, finished[..., None]], dim=-1)

    def _on(self, device: torch.device) -> Tensor:
        """[V, 5], by token: whether it takes, opens, wraps or closes, and its label; copied to a device at the first
        use."""
        import torch

        if device not in self._changes:
            changes = [[effect == kind for kind in CHANGES] for effect in self.effects]
            labels = torch.tensor(self.labels)[:, None]
            self._changes[device] = torch.cat([torch.tensor(changes).long(), labels], dim=1).to(device)
        return self._changes[device]
