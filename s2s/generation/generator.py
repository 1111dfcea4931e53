"""Turns inputs into outputs, in the order of the inputs.

Inputs are buffered and encoded together; the longest are decoded first, as many at once as fit.
"""

from __future__ import annotations

__all__ = ["Generator"]

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s.backend.device_types import device_of
from s2s.config import GenerateConfig
from s2s.decoding.token_transforms import build_transforms
from s2s.generation.candidates import Counts, Output
from s2s.generation.context import InputFollower
from s2s.generation.inputs import AnyInput, as_input, output_constraint, registered_constraints
from s2s.generation.output_stages import build_stages
from s2s.generation.reading import Reader
from s2s.generation.searching import Searcher, search_name
from s2s.generation.text_layout import text_layout
from s2s.generation.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.data.source_shape import SourceShape
    from s2s.decoding import Search
    from s2s.decoding.shortlist import Shortlist
    from s2s.generation.candidates import Input
    from s2s.generation.segments import Segment
    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins
    from s2s.task import Task


class Generator:
    """Turns inputs into outputs.

    The model's training mode is restored between outputs or, if threads or processes search, after the last.
    """

    def __init__(
        self,
        model: Seq2Seq,
        task: Task,
        search: Search,
        device: torch.device | str,
        config: GenerateConfig | None = None,
        plugins: Plugins | None = None,
        sources: SourceShape | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """plugins: provide constraints and output stages; not needed if no option requires them.

        sources: what the sources of the training text were like; None: not known. shortlist: the model's.
        """
        config = config or (plugins.registry.with_options(GenerateConfig) if plugins else GenerateConfig)()
        config = replace(config, tokens=config.tokens or device_of(torch.device(device)).search_tokens)
        self.task, self.config, self.counts, self.plugins = task, config, Counts(), plugins
        limit = self.config.max_source if model.max_len is None else min(self.config.max_source, model.max_len)
        constraints = registered_constraints(plugins)
        constraint = output_constraint(self.config, task, constraints)
        layout = text_layout(self.config, task, sources, plugins)
        longest_trained = sources.longest if sources else None
        self.read = Reader(task, self.config, limit, self.counts, constraints, layout, longest_trained)
        stages = build_stages(self.config, task, model, torch.device(device), plugins)
        transforms = build_transforms(config.transforms, task, plugins.registry) if plugins else []
        self.search = Searcher(
            model,
            search,
            task.vocab,
            torch.device(device),
            self.config,
            stages,
            constraint,
            transforms,
            shortlist if config.shortlist else None,
        )
        self.write = Writer(task, self.config, self.counts, stages, search_name(search))

    def __call__(self, inputs: Iterable[AnyInput]) -> Iterator[Output]:
        """An output for each input, in order; at most `buffer_size` inputs are read ahead.

        Where the task reads a context, inputs follow one another as the option `documents` says.
        """
        inputs = map(self.follower(), map(as_input, inputs)) if self.task.context else iter(inputs)
        while buffer := list(itertools.islice(inputs, self.config.buffer_size)):
            yield from self.generate(buffer)

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
