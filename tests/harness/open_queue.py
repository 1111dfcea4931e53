"""Custom queues, with no more than `SentenceQueue` requires."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from s2s.decoding import SentenceQueue

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from s2s.decoding import SourceSentence


class OpenQueue(SentenceQueue):
    """All that a search can know is that sentences may come, or be cancelled, after every step."""

    def __init__(self, sentences: Iterable[SourceSentence], n_tokens: int) -> None:
        super().__init__(n_tokens)
        self.sentences = deque(sentences)

    def peek(self, *, wait: bool) -> SourceSentence | None:
        return self.sentences[0] if self.sentences else None

    def pop(self, sentence: SourceSentence) -> bool:
        self.sentences.popleft()
        return True


class CancellingQueue(OpenQueue):
    """A queue that is polled after every third step, and cancels each sentence whose number it draws."""

    steps_at_once = 3

    def __init__(self, sentences: Sequence[SourceSentence], draw: random.Random) -> None:
        super().__init__(sentences, draw.choice([1, 9, 30, 1000]))
        self.draw, self.indices, self.cancelled = draw, [one.index for one in sentences], set[int]()

    def take_cancelled(self) -> set[int]:
        drawn = set(self.draw.sample(self.indices, self.draw.choice([0, 0, 1, 3])))
        drawn -= {one.index for one in self.sentences}
        self.cancelled |= drawn
        return drawn
