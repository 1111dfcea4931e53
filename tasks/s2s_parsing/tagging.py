"""Parts of speech of outputs, from the labels that an encoder has learnt (task.word_labels=tags)."""

from __future__ import annotations

__all__ = ["TagStage"]

from typing import TYPE_CHECKING

from s2s.generation import OutputStage

if TYPE_CHECKING:
    from s2s.decoding import Hypothesis
    from s2s_parsing.task import Parsing


class TagStage(OutputStage):
    """Writes the part of speech that is most probable for the encoder at each word of an output."""

    reads_labels = True

    def __init__(self, task: Parsing) -> None:
        self.task = task

    def text(self, src: str, hypothesis: Hypothesis, text: str) -> str:
        """The tree with these parts of speech."""
        del src
        return text if hypothesis.source_labels is None else self.task.with_tags(text, hypothesis.source_labels)
