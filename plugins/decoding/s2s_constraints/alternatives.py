"""Phrases of which an output must contain any."""

from __future__ import annotations

__all__ = ["Alternatives"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s_constraints.phrases import Lack, Phrase

if TYPE_CHECKING:
    from s2s_constraints.phrases import Progress
    from s2s_constraints.spelling import Spelling


@dataclass(frozen=True)
class Alternatives:
    """What a `Phrase` is, of several."""

    phrases: tuple[Phrase, ...]

    def lack(self, output: str, spelling: Spelling) -> Lack | None:
        """None as soon as the output contains one of them for good."""
        lacks = [phrase.lack(output, spelling) for phrase in self.phrases]
        missing = [lack for lack in lacks if lack is not None]
        if len(missing) < len(lacks):
            return None
        return Lack(any(lack.is_open for lack in missing), min(lack.begin for lack in missing))

    def progress(self, output: str, spelling: Spelling) -> list[Progress]:
        """In each of them, the one that lacks the fewest tokens first."""
        every = [one for phrase in self.phrases for one in phrase.progress(output, spelling)]
        return sorted(every, key=lambda one: one.missing)

    @property
    def n_tokens(self) -> int:
        """Of the shortest."""
        return min(phrase.n_tokens for phrase in self.phrases)

    def forms(self, spelling: Spelling) -> set[str]:
        """Those of all."""
        return {form for phrase in self.phrases for form in phrase.forms(spelling)}
