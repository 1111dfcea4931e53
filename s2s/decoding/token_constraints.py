"""What options of a search require of every output: a minimum length, and no repeated n-gram, as automata.

Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens remembered.
"""

from __future__ import annotations

__all__ = ["MinLength", "NoRepeatNgram", "OptionRules", "TokenWindow", "option_constraints", "option_rules"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.decoding.constraints import ConstraintSet

if TYPE_CHECKING:
    from s2s.decoding.config import SearchConfig
    from s2s.decoding.constraints import FixedWidthConstraint
    from s2s.task import Constraint
    from s2s.vocab import Vocab

NONE = -1
"""Marks positions without a token"""
NGRAM_WINDOW = 512
"""Number of tokens that `NoRepeatNgram` looks back: the same for every source, so that states can be concatenated"""


def option_constraints(config: SearchConfig, vocab: Vocab) -> list[FixedWidthConstraint]:
    """The constraints that a search's options set."""
    constraints: list[FixedWidthConstraint] = []
    if config.min_len:
        constraints.append(MinLength(config.min_len, vocab.tgt, vocab.eos))
    if config.no_repeat_ngram_size:
        constraints.append(NoRepeatNgram(config.no_repeat_ngram_size, vocab.tgt))
    return constraints


class OptionRules(NamedTuple):
    """A constraint on outputs, for functions that compute what options set."""

    constraint: Constraint | None
    """The task's"""
    min_len: int
    no_repeat_ngram_size: int
    """0: any may be repeated"""


def option_rules(constraint: Constraint | None, vocab: Vocab) -> OptionRules | None:
    """A task's constraint and the rules that options set; None: it has others."""
    if type(constraint) is not ConstraintSet:
        return OptionRules(constraint, 0, 0)
    shortest = [one for one in constraint.others if type(one) is MinLength and one.eos == vocab.eos]
    repeats = [one for one in constraint.others if type(one) is NoRepeatNgram]
    if len(shortest) + len(repeats) < len(constraint.others) or len(repeats) > 1:
        return None
    least = max((one.n for one in shortest), default=0)
    return OptionRules(constraint.own, least, sum(one.n for one in repeats))


class MinLength:
    """Outputs have at least `n` tokens, or as many as their limit allows; the state counts down."""

    width = 1

    def __init__(self, n: int, n_tokens: int, eos: int) -> None:
        self.n, self.n_tokens, self.eos = n, n_tokens, eos

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1]"""
        return limit.clamp(max=self.n)[:, None, None]

    def allowed(self, state: Tensor) -> Tensor:
        """All tokens but eos, and eos, too, once there are enough tokens."""
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
        """The window shifted by one token."""
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
