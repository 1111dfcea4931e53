"""Constraints on every output that a user asks for: automata that search applies together with the task's own.

Shapes: B sentences, K hypotheses per sentence, V target tokens, n tokens of a sequence, W tokens remembered.
"""

from __future__ import annotations

__all__ = [
    "NONE",
    "BadWords",
    "ConstraintSet",
    "FixedWidthConstraint",
    "MinLength",
    "NoRepeatNgram",
    "build_constraint",
]

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from s2s.errors import ConfigError
from s2s.task import Constraint, Example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.task import Task

NONE = -1
"""Marks positions without a token"""
NGRAM_WINDOW = 512
"""How many tokens back `NoRepeatNgram` looks: the same for every source, so that states can be concatenated"""


def build_constraint(config: GenerateConfig, task: Task) -> Constraint | None:
    """The task's and the user's constraints; None if every output is allowed."""
    own, vocab = task.constraint() if config.constrained else None, task.vocab
    others: list[FixedWidthConstraint] = []
    if config.min_len:
        others.append(MinLength(config.min_len, vocab.tgt, vocab.eos))
    if config.no_repeat_ngram_size:
        others.append(NoRepeatNgram(config.no_repeat_ngram_size, vocab.tgt))
    if config.bad_words:
        others.append(BadWords(_ids_of(config.bad_words, task), vocab.tgt))
    return ConstraintSet(own, others) if others else own


def _ids_of(texts: Sequence[str], task: Task) -> list[list[int]]:
    """The target tokens of each text, as the task encodes outputs."""
    ids = [pair.tgt for pair in task.encode([Example("", text) for text in texts])]
    for text, tokens in zip(texts, ids, strict=True):
        if not tokens:
            raise ConfigError(f"bad_words: {text!r} has no tokens in task={task.config.name}; leave it out")
    return ids


class FixedWidthConstraint(Constraint, Protocol):
    """A constraint whose states have the same width for every source."""

    @property
    def width(self) -> int:
        """The last dimension of its states."""
        ...


class ConstraintSet:
    """Several constraints at once: the task's own, if it has one, and others."""

    def __init__(self, own: Constraint | None, others: Sequence[FixedWidthConstraint]) -> None:
        self.own, self.others = own, others

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """The states of all, concatenated, the task's first: [B, 1, ·]"""
        own = [self.own.start(src, pad, limit)] if self.own else []
        return torch.cat([*own, *(other.start(src, pad, limit) for other in self.others)], dim=-1)

    def allowed(self, state: Tensor) -> Tensor:
        """[B, K, ·] -> [B, K, V]"""
        (first, part), *others = self._parts(state)
        allowed = first.allowed(part)
        for constraint, part in others:
            allowed = allowed & constraint.allowed(part)
        return allowed

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        return torch.cat([constraint.advance(part, token) for constraint, part in self._parts(state)], dim=-1)

    def columns(self) -> list[tuple[FixedWidthConstraint, slice]]:
        """All constraints but the task's, and the columns of their states, counted from the end."""
        ends = list(accumulate((other.width for other in reversed(self.others)), initial=0))[::-1]
        return [(o, slice(-begin, -end or None)) for o, (begin, end) in zip(self.others, pairwise(ends), strict=True)]

    def _parts(self, state: Tensor) -> list[tuple[Constraint, Tensor]]:
        """Every constraint and its states; the task's have the columns that remain."""
        widths = [other.width for other in self.others]
        own, *parts = state.split([state.size(-1) - sum(widths), *widths], dim=-1)
        pairs: list[tuple[Constraint, Tensor]] = list(zip(self.others, parts, strict=True))
        return [(self.own, own), *pairs] if self.own else pairs


class MinLength:
    """Outputs have at least `n` tokens, or as many as their limit allows; the state counts down."""

    width = 1

    def __init__(self, n: int, n_tokens: int, eos: int) -> None:
        self.n, self.n_tokens, self.eos = n, n_tokens, eos

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1]"""
        return limit.clamp(max=self.n)[:, None, None]

    def allowed(self, state: Tensor) -> Tensor:
        """All but eos, and eos once there are enough tokens."""
        return (state <= 0) | (torch.arange(self.n_tokens, device=state.device) != self.eos)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The count minus one."""
        return state - 1


class TokenWindow:
    """A constraint whose state is the last `width` tokens, the newest last."""

    def __init__(self, width: int, n_tokens: int) -> None:
        self.width, self.n_tokens = width, n_tokens

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        return src.new_full((src.size(0), 1, self.width), NONE)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The window moved by one token."""
        return torch.cat([state, token[..., None]], dim=-1)[..., 1:]

    def all_but(self, tokens: Tensor) -> Tensor:
        """tokens [B, K, ·], NONE for no token -> allowed [B, K, V]"""
        forbidden = torch.zeros(*tokens.shape[:2], self.n_tokens + 1, dtype=torch.bool, device=tokens.device)
        forbidden.scatter_(2, tokens.masked_fill(tokens == NONE, self.n_tokens), True)
        return ~forbidden[..., :-1]


class NoRepeatNgram(TokenWindow):
    """No sequence of `n` tokens occurs twice in the last `NGRAM_WINDOW` tokens of an output."""

    def __init__(self, n: int, n_tokens: int) -> None:
        super().__init__(NGRAM_WINDOW, n_tokens)
        self.n = n

    def allowed(self, state: Tensor) -> Tensor:
        """All but the tokens that followed an earlier occurrence of the last n - 1."""
        grams = state.unfold(-1, self.n, 1)  # [B, K, W - n + 1, n]
        newest = state[..., None, self.width - self.n + 1 :]
        again = ((grams[..., :-1] == newest) & (newest != NONE)).all(-1)  # [B, K, W - n + 1]
        return self.all_but(grams[..., -1].masked_fill(~again, NONE))


class BadWords(TokenWindow):
    """None of the given token sequences occurs in an output."""

    def __init__(self, sequences: Sequence[Sequence[int]], n_tokens: int) -> None:
        assert sequences
        assert all(sequences)
        super().__init__(max(map(len, sequences)) - 1, n_tokens)
        self.sequences = [list(sequence) for sequence in sequences]

    def allowed(self, state: Tensor) -> Tensor:
        """All but the last token of each sequence whose other tokens end the output."""
        last = [torch.full_like(state[..., :1], NONE)[..., :0]]
        for *before, final in self.sequences:
            wanted = torch.tensor(before, dtype=state.dtype, device=state.device)
            ready = (state[..., self.width - len(before) :] == wanted).all(-1, keepdim=True)  # [B, K, 1]
            last.append(torch.where(ready, final, NONE))
        return self.all_but(torch.cat(last, dim=-1))
