"""What an output must still contain: the rest of its prefix, and phrases."""

from __future__ import annotations

__all__ = ["FREE", "TextState"]

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from s2s_constraints.phrases import LONGEST_CHARACTER, Phrase
from s2s_constraints.spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_constraints.phrases import Progress


@dataclass(frozen=True)
class TextState:
    """The state of one output; see `FREE` for the one of which nothing is required."""

    spelling: Spelling
    rests: tuple[str, ...]
    """What the prefix has after the output, in each way to spell it; none: the output has all of it"""
    phrases: tuple[Phrase, ...]
    """Those that the output lacks, or whose word may still go on"""
    room: int
    """Tokens until the limit"""
    output: str = ""
    """Its end, as symbols"""
    ends: tuple[int | None, ...] = ()
    """By phrase where it ends in `output`; None: it is missing"""

    def with_room(self, room: int) -> TextState:
        """The state of an empty output of at most `room` tokens."""
        return replace(self, room=room) if self.rests or self.phrases else FREE

    def after(self, token: int) -> TextState:
        """The state with one more token."""
        text = self.spelling.texts[token]
        rests = tuple(dict.fromkeys(rest[len(text) :] for rest in self.rests if rest.startswith(text)))
        if not all(rests) or any(text.startswith(rest) for rest in self.rests):
            rests = ()
        state = replace(self, rests=rests, room=self.room - 1)
        if not self.phrases:
            return state if rests else FREE
        return state._with_output(self.output + text, len(text))

    def _with_output(self, output: str, n_new: int) -> TextState:
        """The state for this output, whose last `n_new` symbols are new."""
        missing, ends = [], []
        for phrase in self.phrases:
            end = phrase.end(output, max(len(output) - n_new - LONGEST_CHARACTER - len(phrase.text), 0))
            if end is None or phrase.is_open(output, end):
                missing.append(phrase)
                ends.append(end)
        if not missing and not self.rests:
            return FREE
        longest = max((len(phrase.text) for phrase in missing), default=0)
        n_cut = max(len(output) - longest - self.spelling.longest - 3 * LONGEST_CHARACTER, 0)
        ends = [None if end is None else end - n_cut for end in ends]
        return replace(self, phrases=tuple(missing), output=output[n_cut:], ends=tuple(ends))

    @cached_property
    def progress(self) -> list[Progress]:
        """Of the phrases that are missing."""
        pairs = zip(self.phrases, self.ends or [None] * len(self.phrases), strict=True)
        return [phrase.progress(self.output, self.spelling) for phrase, end in pairs if end is None]

    @cached_property
    def missing(self) -> int:
        """Tokens that complete all phrases, one after the other."""
        n_tokens = sum(one.n_tokens + one.missing for one in self.progress)
        return n_tokens - max((one.n_tokens for one in self.progress), default=0)

    @property
    def required(self) -> list[int]:
        """The next token of each missing phrase; none within the prefix."""
        return [] if self.rests else [one.following for one in self.progress]

    @property
    def may_end(self) -> bool:
        """Whether nothing is missing but a blank at the end of the prefix."""
        return not self.progress and (not self.rests or " " in self.rests)

    def only(self) -> Sequence[int] | None:
        """The tokens of which the next is one; None: it may be any.

        Within the prefix those that spell it; those that continue the phrases that are nearest to completion, if the
        room is only just enough for all.
        """
        if self.rests:
            return [i for rest in self.rests for i in self.spelling.continuing(rest)]
        if self.progress and self.room <= self.missing:
            most = max(one.n_tokens for one in self.progress)
            return [one.following for one in self.progress if one.n_tokens == most]
        open_words = [phrase for phrase, end in zip(self.phrases, self.ends, strict=False) if end is not None]
        if open_words and self.room <= self.missing + sum(len(phrase.spaced) for phrase in open_words):
            return self.spelling.beginning_outside
        return None


FREE = TextState(None, (), (), 0)  # type: ignore[arg-type]  # which spells nothing
"""Nothing is required"""
