"""What an output must still contain: the rest of its prefix, and phrases."""

from __future__ import annotations

__all__ = ["FREE", "TextState"]

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s_constraints.alternatives import Alternatives
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import NEUTRAL, context

if TYPE_CHECKING:
    from s2s_constraints.phrases import Progress


@dataclass(frozen=True)
class TextState:
    """The state of one output; see `FREE` for the one of which nothing is required.

    Outputs of which the same may follow have equal states, so that there are few.
    """

    spelling: Spelling
    rests: tuple[str, ...] = ()
    """What the prefix has after the output, in each way to spell it; none: the output has all of it"""
    phrases: tuple[Phrase | Alternatives, ...] = ()
    """Those that the output lacks"""
    open_phrases: tuple[Phrase | Alternatives, ...] = ()
    """Those with which it ends, and whose last word may still go on, so that they would be missing again"""
    output: str = ""
    """Its end, as symbols, from where the phrases need it (`Phrase.begin`), behind the `context` that this has"""

    def __hash__(self) -> int:
        return hash((self.rests, self.phrases, self.output))

    def kind(self, token: int) -> int | str:
        """What the next state depends on: the token, or the context that it leaves if it begins no phrase."""
        if self.rests or self.open_phrases or self.output not in NEUTRAL:
            return token
        left = None if token in _touching(self.phrases, self.spelling) else self.spelling.contexts[token]
        return token if left is None else left

    def after(self, token: int) -> TextState:
        """The state with one more token."""
        text = self.spelling.texts[token]
        rests: tuple[str, ...] = ()
        if not any(text.startswith(rest) for rest in self.rests):
            rests = tuple(dict.fromkeys(rest[len(text) :] for rest in self.rests if rest.startswith(text)))
        if self.has_phrases:
            return self._with_output(self.output + text, rests)
        return replace(self, rests=rests) if rests else FREE

    def _with_output(self, output: str, rests: tuple[str, ...]) -> TextState:
        missing: list[Phrase | Alternatives] = []
        still_open: list[Phrase | Alternatives] = []
        begin = len(output)
        for phrase in (*self.phrases, *self.open_phrases):
            if lack := phrase.lack(output, self.spelling):
                (still_open if lack.is_open else missing).append(phrase)
                begin = min(begin, lack.begin)
        if not missing and not still_open:
            return TextState(self.spelling, rests) if rests else FREE
        before = "" if self.spelling.tokenwise else context(output[:begin])
        return TextState(self.spelling, rests, tuple(missing), tuple(still_open), before + output[begin:])

    @property
    def has_phrases(self) -> bool:
        """Whether a phrase is missing, or may be again."""
        return bool(self.phrases or self.open_phrases)

    @cached_property
    def _progress(self) -> list[list[Progress]]:
        """Of each phrase that is missing in each of its alternatives, the one that lacks the fewest tokens first."""
        return [phrase.progress(self.output, self.spelling) for phrase in self.phrases]

    @cached_property
    def progress(self) -> list[Progress]:
        """Of each phrase that is missing."""
        return [first for first, *_ in self._progress]

    @cached_property
    def missing(self) -> int:
        """Tokens that complete all phrases, one after the other."""
        n_tokens = sum(one.n_tokens + one.missing for one in self.progress)
        return n_tokens - max((one.n_tokens for one in self.progress), default=0)

    @cached_property
    def required(self) -> list[int]:
        """The next token of each missing phrase; none within the prefix."""
        return [] if self.rests else [one.following for alternatives in self._progress for one in alternatives]

    @cached_property
    def may_end(self) -> bool:
        """Whether nothing is missing but a blank at the end of the prefix."""
        return not self.phrases and (not self.rests or " " in self.rests)

    def only(self, room: int) -> Tensor | None:
        """The tokens of which the next is one, with `room` tokens left; None: it may be any.

        Within the prefix those that spell it; those that continue the phrases that are nearest to completion, if the
        room is only just enough for all.
        """
        if self.rests:
            return self._within_prefix
        if self.phrases and room <= self.missing:
            most = max(one.n_tokens for one in self.progress)
            return torch.tensor([one.following for one in self.progress if one.n_tokens == most])
        if self.open_phrases and room <= self.missing + sum(phrase.n_tokens for phrase in self.open_phrases):
            return torch.tensor(self.spelling.beginning_outside, dtype=torch.long)
        return None

    @cached_property
    def _within_prefix(self) -> Tensor:
        return torch.tensor([i for rest in self.rests for i in self.spelling.continuing(rest)], dtype=torch.long)


@lru_cache(maxsize=1000)
def _touching(phrases: tuple[Phrase | Alternatives, ...], spelling: Spelling) -> set[int]:
    """The tokens that contain or begin any of the phrases."""
    return {i for phrase in phrases for form in phrase.forms(spelling) for i in spelling.touching(form)}


FREE = TextState(Spelling([]))
"""Nothing is required"""
