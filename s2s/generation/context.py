"""The texts before each input in its document, for a task with a context."""

from __future__ import annotations

__all__ = ["InputFollower", "with_previous_pieces"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.data.context import PreviousTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.generation.candidates import Input
    from s2s.generation.text_layout import TextLayout, Unit
    from s2s.task import Task


class InputFollower:
    """Gives successive inputs the texts before them as context; inputs of a task without a context stay as they are."""

    def __init__(self, task: Task, config: GenerateConfig) -> None:
        self.defaults = config.input_fields
        self.previous = PreviousTexts(task.context, blank_ends=True) if task.context and config.documents else None

    def __call__(self, one: Input) -> Input:
        """Raises DataError for a document that is not in order."""
        if self.previous is None:
            return one
        context = self.previous(one.src, {**self.defaults, **one.record, **one.fields})
        return replace(one, fields={**one.fields, "context": context})


def with_previous_pieces(pieces: Sequence[Input], task: Task, layout: TextLayout, unit: Unit | None) -> list[Input]:
    """The pieces of one input, each with those before it as context: first those of the texts before the input."""
    texts, language = pieces[0].fields.get("context") or (), task.source_language(pieces[0].fields)
    before = [piece.text for text in texts for piece in layout.pieces(text, language, unit)]
    followed = []
    for one in pieces:
        followed.append(replace(one, fields={**one.fields, "context": before[-task.context :]}))
        before.append(one.src)
    return followed
