"""A custom queue, with no more than `SentenceQueue` requires."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from s2s.decoding import SentenceQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

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
