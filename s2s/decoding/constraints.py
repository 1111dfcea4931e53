"""What a user forbids in outputs, as automata that search applies together with the task's own.

Shapes: B sentences, K hypotheses per sentence, V target symbols, n symbols of a sequence, W symbols remembered.
"""

from __future__ import annotations

__all__ = ["NONE", "All", "BadWords", "MinLength", "NoRepeatNgram", "Tail", "build_constraint"]

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
"""Stands where an output has no symbol yet"""
REMEMBERED = 512
"""How far back `NoRepeatNgram` looks: the same for every source, so that waiting sentences can join"""


def build_constraint(config: GenerateConfig, task: Task) -> Constraint | None:
    """What the task and the user allow; None: any output."""
    own, vocab = task.constraint() if config.constrained else None, task.vocab
    others: list[Tail] = []
    if config.min_len:
        others.append(MinLength(config.min_len, vocab.tgt, vocab.eos))
    if config.no_repeat_ngram_size:
        others.append(NoRepeatNgram(config.no_repeat_ngram_size, vocab.tgt))
    if config.bad_words:
        others.append(BadWords(_ids_of(config.bad_words, task), vocab.tgt))
    return All(own, others) if others else own


def _ids_of(texts: Sequence[str], task: Task) -> list[list[int]]:
    """As the task writes each in an output."""
    ids = [pair.tgt for pair in task.encode([Example("", text) for text in texts])]
    for text, symbols in zip(texts, ids, strict=True):
        if not symbols:
            raise ConfigError(f"bad_words: {text!r} has no symbols in task={task.config.name}; leave it out")
    return ids


class Tail(Constraint, Protocol):
    """A constraint whose states are as wide for every source."""

    @property
    def width(self) -> int:
        """The last dimension of its states."""
        ...


class All:
    """Only what the task, if it says anything, and every other constraint allow."""

    def __init__(self, own: Constraint | None, others: Sequence[Tail]) -> None:
        self.own, self.others = own, others

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """All states side by side, the task's first: [B, 1, ·]"""
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

    def columns(self) -> list[tuple[Tail, slice]]:
        """Where the states of all but the task's stand, counted from the end."""
        ends = list(accumulate((other.width for other in reversed(self.others)), initial=0))[::-1]
        return [(o, slice(-begin, -end or None)) for o, (begin, end) in zip(self.others, pairwise(ends), strict=True)]

    def _parts(self, state: Tensor) -> list[tuple[Constraint, Tensor]]:
        """Every constraint and its states; the task's are what the others leave."""
        widths = [other.width for other in self.others]
        own, *parts = state.split([state.size(-1) - sum(widths), *widths], dim=-1)
        pairs: list[tuple[Constraint, Tensor]] = list(zip(self.others, parts, strict=True))
        return [(self.own, own), *pairs] if self.own else pairs


class MinLength:
    """Outputs have at least `n` symbols, or as many as their limit lets them; the state counts down."""

    width = 1

    def __init__(self, n: int, n_symbols: int, eos: int) -> None:
        self.n, self.n_symbols, self.eos = n, n_symbols, eos

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1]"""
        return limit.clamp(max=self.n)[:, None, None]

    def allowed(self, state: Tensor) -> Tensor:
        """All but eos, and eos when enough have been written."""
        return (state <= 0) | (torch.arange(self.n_symbols, device=state.device) != self.eos)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """One less."""
        return state - 1


class Remembering:
    """A constraint whose state is the last `width` symbols, the newest last."""

    def __init__(self, width: int, n_symbols: int) -> None:
        self.width, self.n_symbols = width, n_symbols

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        return src.new_full((src.size(0), 1, self.width), NONE)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The oldest is forgotten."""
        return torch.cat([state, token[..., None]], dim=-1)[..., 1:]

    def all_but(self, symbols: Tensor) -> Tensor:
        """symbols [B, K, ·], NONE where there is none -> allowed [B, K, V]"""
        forbidden = torch.zeros(*symbols.shape[:2], self.n_symbols + 1, dtype=torch.bool, device=symbols.device)
        forbidden.scatter_(2, symbols.masked_fill(symbols == NONE, self.n_symbols), True)
        return ~forbidden[..., :-1]


class NoRepeatNgram(Remembering):
    """No `n` symbols in a row stand twice in an output, as far back as is remembered."""

    def __init__(self, n: int, n_symbols: int) -> None:
        super().__init__(REMEMBERED, n_symbols)
        self.n = n

    def allowed(self, state: Tensor) -> Tensor:
        """All but what has followed the last n - 1 symbols before."""
        grams = state.unfold(-1, self.n, 1)  # [B, K, W - n + 1, n]
        newest = state[..., None, self.width - self.n + 1 :]
        again = ((grams[..., :-1] == newest) & (newest != NONE)).all(-1)  # [B, K, W - n + 1]
        return self.all_but(grams[..., -1].masked_fill(~again, NONE))


class BadWords(Remembering):
    """None of some sequences of symbols stands in an output."""

    def __init__(self, sequences: Sequence[Sequence[int]], n_symbols: int) -> None:
        assert sequences
        assert all(sequences)
        super().__init__(max(map(len, sequences)) - 1, n_symbols)
        self.sequences = [list(sequence) for sequence in sequences]

    def allowed(self, state: Tensor) -> Tensor:
        """All but the last symbols of those that stand there but for it."""
        last = [torch.full_like(state[..., :1], NONE)[..., :0]]
        for *before, symbol in self.sequences:
            wanted = torch.tensor(before, dtype=state.dtype, device=state.device)
            ready = (state[..., self.width - len(before) :] == wanted).all(-1, keepdim=True)  # [B, K, 1]
            last.append(torch.where(ready, symbol, NONE))
        return self.all_but(torch.cat(last, dim=-1))
