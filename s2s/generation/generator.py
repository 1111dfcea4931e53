"""Inputs in, outputs out, in the order of the inputs.

A window of inputs is read ahead and encoded at once; the longest are decoded first, as many as there is room for.
"""

from __future__ import annotations

__all__ = ["Generator"]

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s.config import GenerateConfig
from s2s.decoding.constraints import build_constraint
from s2s.generation.attention import AttentionReader
from s2s.generation.candidates import NOTHING, Counts, Input, Output
from s2s.generation.reading import Reader
from s2s.generation.searching import Searcher
from s2s.generation.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.decoding import Search
    from s2s.generation.reading import Unit
    from s2s.metrics import Metric
    from s2s.model import Seq2Seq
    from s2s.task import Task


TOKENS = {"cpu": 1000}
"""Source symbols decoded at once, by kind of device: more leave a CPU's caches (benchmarks/results/decode_tokens)"""
MANY = 4000
"""On any other"""


class Generator:
    """Turns inputs into outputs with a model in memory, which stays in the mode in which it is."""

    def __init__(
        self,
        model: Seq2Seq,
        task: Task,
        search: Search,
        device: torch.device | str,
        config: GenerateConfig | None = None,
        utility: Metric | None = None,
    ) -> None:
        """utility: what candidates are ranked by, for minimum Bayes risk."""
        config = config or GenerateConfig()
        config = replace(config, tokens=config.tokens or TOKENS.get(torch.device(device).type, MANY))
        self.task, self.config, self.counts = task, config, Counts()
        limit = self.config.max_source if model.max_len is None else min(self.config.max_source, model.max_len)
        constraint = build_constraint(self.config, task)
        self.read = Reader(task, self.config, limit, self.counts)
        attend = AttentionReader(model, task.vocab, torch.device(device), self.config)
        self.search = Searcher(model, search, task.vocab, torch.device(device), self.config, attend, constraint)
        self.write = Writer(task, self.config, self.counts, utility)

    def __call__(self, inputs: Iterable[Input | str]) -> Iterator[Output]:
        """An output for each input, in order; while the first are taken, at most a window is read ahead."""
        inputs = iter(inputs)
        while window := list(itertools.islice(inputs, self.config.buffer_size)):
            yield from self.window(window)

    def window(self, inputs: Sequence[Input | str]) -> Iterator[Output]:
        """An output for each of these, in order, each as soon as those before it are there."""
        given = [one if isinstance(one, Input) else Input(one) for one in inputs]
        if self.config.raw:
            given = [replace(one, src=self.task.read_raw(one.src)) for one in given]
        units, error = self.read(given)
        for one, outputs in zip(given[: len(units)], self._outputs(units), strict=True):
            yield self.write.whole(one, outputs)
        if error:
            raise error

    def _outputs(self, units: Sequence[Sequence[Unit]]) -> Iterator[list[Output]]:
        """The outputs of each input's units, in order, as soon as they and those before them are there."""
        flat = list(itertools.chain.from_iterable(units))
        outputs = [None if unit.ids else Output(unit.src, [NOTHING]) for unit in flat]
        ends = list(itertools.accumulate(map(len, units)))
        begin = n_given = 0
        for found in itertools.chain(self.search(flat), [[]]):
            for place, hypotheses in found:
                outputs[place] = self.write.output(flat[place], hypotheses)
            while n_given < len(ends) and all(of_input := outputs[begin : ends[n_given]]):
                yield [output for output in of_input if output]
                begin, n_given = ends[n_given], n_given + 1
