"""Turns inputs into outputs, in the order of the inputs.

Inputs are buffered and encoded together; the longest are decoded first, as many at once as fit.
"""

from __future__ import annotations

__all__ = ["Generator", "SegmentSearch"]

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from s2s.generation.candidates import Counts, Output
from s2s.generation.context import InputFollower
from s2s.generation.inputs import AnyInput, as_input, registered_constraints
from s2s.generation.reading import Reader
from s2s.generation.text_layout import text_layout
from s2s.generation.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.config import GenerateConfig
    from s2s.data.source_shape import SourceShape
    from s2s.decoding import Hypothesis, SearchResult, SentenceQueue, SourceSentence
    from s2s.generation.candidates import Input
    from s2s.generation.output_stages import OutputStage
    from s2s.generation.searching import Searcher
    from s2s.generation.segments import Segment
    from s2s.plugin import Plugins
    from s2s.task import Task


class SegmentSearch(Protocol):
    """A search over segments under the options of one command, with its model and all else that it needs."""

    @property
    def config(self) -> GenerateConfig:
        """The options, with those that depend on the device."""

    @property
    def max_len(self) -> int | None:
        """Longest source of the model, in tokens with eos; None: any."""

    @property
    def stages(self) -> Sequence[OutputStage]:
        """What is done with its hypotheses: `OutputStage.results` by the search, all else when they are written."""

    @property
    def name(self) -> str:
        """Its name in errors."""

    def __call__(self, segments: Sequence[Segment]) -> Iterator[Iterable[SearchResult]]:
        """The result of each segment that has tokens, by its index, as soon as it is known."""

    def accepts(self, sentence: SourceSentence) -> bool:
        """Whether it searches this sentence itself; others need the search `with_model`."""

    def queued(self, queue: SentenceQueue) -> Iterator[Iterable[SearchResult]]:
        """The result of each sentence of a queue, all of which it accepts, as soon as it is known; before stages."""

    def has_more_to_do(self, sentence: SourceSentence, hypotheses: Sequence[Hypothesis]) -> bool:
        """Whether `Searcher.after_stages` changes what `queued` has found for a sentence that it accepts."""

    def with_model(self) -> Searcher:
        """The search with the model as a network of torch, for what needs the network itself."""


class Generator:
    """Turns inputs into outputs."""

    def __init__(
        self, task: Task, search: SegmentSearch, plugins: Plugins | None = None, sources: SourceShape | None = None
    ) -> None:
        """plugins: provide constraints and layouts of text; not needed if no option requires them.

        sources: what the sources of the training text were like; None: not known.
        """
        self.task, self.search, self.plugins = task, search, plugins
        self.config, self.counts = search.config, Counts()
        longest = self.config.max_source if search.max_len is None else min(self.config.max_source, search.max_len)
        constraints, layout = registered_constraints(plugins), text_layout(self.config, task, sources, plugins)
        longest_trained = sources.longest if sources else None
        self.read = Reader(task, self.config, longest, self.counts, constraints, layout, longest_trained)
        self.write = Writer(task, self.config, self.counts, search.stages, search.name)

    def __call__(self, inputs: Iterable[AnyInput]) -> Iterator[Output]:
        """An output for each input, in order; at most `buffer_size` inputs are read ahead.

        Where the task reads a context, inputs follow one another as the option `documents` says.
        """
        inputs = map(self.follower(), map(as_input, inputs)) if self.task.context else iter(inputs)
        while buffer := list(itertools.islice(inputs, self.config.buffer_size)):
            yield from self.generate(buffer)

    def aligning(self) -> Generator | None:
        """The same with aligned outputs, for which the model is loaded; None if the architecture gives no attention, or
        no plugin aligns words."""
        search = self.search.with_model().aligning(self.plugins)
        return Generator(self.task, search, self.plugins) if search else None

    def follower(self) -> Callable[[Input], Input]:
        """A function that gives each of successive inputs those before it in its document, if the task reads any."""
        return InputFollower(self.task, self.config)

    def generate(self, inputs: Sequence[AnyInput]) -> Iterator[Output]:
        """An output for each of these inputs, in order, each as soon as those before it are known.

        Their context is what `follower` has given them.
        """
        sources = [as_input(one) for one in inputs]
        if self.config.raw:
            sources = [replace(one, src=self.task.read_raw(one.src)) for one in sources]
        segments, error = self.read(sources)
        for n, (one, outputs) in enumerate(zip(sources[: len(segments)], self._outputs(segments), strict=True)):
            yield self.write.join_segments(one, segments[n], outputs)
        if error:
            raise error

    def _outputs(self, segments: Sequence[Sequence[Segment]]) -> Iterator[list[Output]]:
        """The outputs of each input's segments, in order, as soon as they and those before them are known."""
        flat = list(itertools.chain.from_iterable(segments))
        outputs = [None if segment.ids else self.write.unsearched(segment) for segment in flat]
        ends = list(itertools.accumulate(map(len, segments)))
        begin = n_given = 0
        for some in itertools.chain(self._searched(flat), [[]]):
            for index, output in some:
                outputs[index] = output
            while n_given < len(ends) and all(segment_outputs := outputs[begin : ends[n_given]]):
                yield [output for output in segment_outputs if output]
                begin, n_given = ends[n_given], n_given + 1

    def _searched(self, segments: Sequence[Segment]) -> Iterator[list[tuple[int, Output]]]:
        """Indices and outputs of the segments that have tokens, as soon as nothing else is searched for them."""
        current: dict[int, Segment] = dict(enumerate(segments))
        previous: dict[int, Output] = {}
        while current:
            (indices, some), current = (list(current), list(current.values())), {}
            if previous:
                yield [(i, self.write.unsearched(one)) for i, one in zip(indices, some, strict=True) if not one.ids]
            for results in self.search(some):
                for index, hypotheses in ((one.index, one.hypotheses) for one in results):
                    i, segment = indices[index], some[index]
                    previous[i] = self.write.output(segment, hypotheses, previous.get(i))
                    if (following := segment.again(previous[i].hyp)) is not None:
                        current[i] = following
                    else:
                        yield [(i, previous[i])]
