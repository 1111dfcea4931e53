"""The text of a hypothesis: as its task detokenises it, with all that was copied around the model."""

from __future__ import annotations

__all__ = ["TextWriter"]

from functools import cached_property
from typing import TYPE_CHECKING, Any

from s2s.errors import PluginError
from s2s.text.offsets import moved_links
from s2s.text.words import atoms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.segments import Segment
    from s2s.task import Task
    from s2s.text import Link


class TextWriter:
    """Writes the hypotheses of a segment as text, with links between it and the segment."""

    def __init__(self, task: Task, stages: Sequence[OutputStage], segment: Segment) -> None:
        self.task, self.stages, self.segment = task, stages, segment
        self.is_aligned = segment.align or any(stage.computes_alignment for stage in stages)

    def __call__(self, hypothesis: Hypothesis) -> tuple[str, list[Link]]:
        src = self.segment.text
        detokenized = text = _text_of(self.task, "detokenize", self.task.detokenize(hypothesis.tokens, src))
        for stage in self.stages:
            text = _text_of(stage, "text", stage.text(src, hypothesis, text))
        links = moved_links(self._links(hypothesis), detokenized, text)
        return self._with_phrases(*self._restored(text, links))

    def _restored(self, text: str, links: list[Link]) -> tuple[str, list[Link]]:
        """The text with what was taken out of the source, behind the prefix, which is as it was given."""
        source, prefix = self.segment.source, self.segment.required.prefix
        is_begun = prefix and (self.task.spellings() is not None or text.startswith(prefix.text))
        if not prefix or not is_begun:
            return source.restored(text, links) if source else (text, links)
        n = prefix.n_written(text)
        end = next((word.end for word in atoms(text) if word.begin < n < word.end), n)
        tail, tail_links = text[end:], [(sb, se, tb - end, te - end) for sb, se, tb, te in links if tb >= end]
        if source:
            tail, tail_links = source.restored(tail, tail_links)
        if tail[:1] != text[end : end + 1] and not tail[:1].isspace():
            tail = f" {tail}"
            tail_links = [(sb, se, tb + 1, te + 1) for sb, se, tb, te in tail_links]
        whole = prefix.before(text[n:end] + tail)
        moved = len(whole) - len(tail)
        head = [link for link in links if link[3] <= end] if whole[:end] == text[:end] else []
        return whole, [*head, *((sb, se, tb + moved, te + moved) for sb, se, tb, te in tail_links if tb + moved >= 0)]

    def _with_phrases(self, text: str, links: list[Link]) -> tuple[str, list[Link]]:
        for phrase in self.segment.required.phrases:
            changed = phrase.put_into(text)
            text, links = changed, moved_links(links, text, changed)
        return text, links

    def _links(self, hypothesis: Hypothesis) -> list[Link]:
        """Each token of the output with the source token that it attends to most."""
        if hypothesis.source_positions is None or not self.is_aligned:
            return []
        targets = self.task.target_offsets(hypothesis.tokens, self.segment.text)
        sources = (self._sources[position] for position in hypothesis.source_positions)
        return [(*source, *target) for source, target in zip(sources, targets, strict=True) if source and target]

    @cached_property
    def _sources(self) -> Sequence[tuple[int, int] | None]:
        return self.task.source_offsets(self.segment.text)


def _text_of(maker: object, method: str, value: Any) -> str:
    """A text that a task or a stage made; raises PluginError if it is none."""
    if not isinstance(value, str):
        raise PluginError(f"{type(maker).__name__}.{method}: expected a text, got {type(value).__name__}")
    return value
