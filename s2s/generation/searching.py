"""The search over the segments of buffered inputs, the longest first, as many at once as fit."""

from __future__ import annotations

__all__ = ["Searcher"]

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import torch

from s2s.backend.device_types import device_of
from s2s.backend.selection import DTYPES
from s2s.config import GenerateConfig
from s2s.decoding import BeamSearch, LogitsTransform, Search, SearchRequest, SearchResult, SentenceQueue, SourceSentence
from s2s.decoding.queue import FixedQueue
from s2s.decoding.shortlist import Shortlist
from s2s.decoding.token_transforms import build_transforms
from s2s.errors import ConfigError
from s2s.generation.inputs import output_constraint, registered_constraints
from s2s.generation.output_stages import OutputStage, build_stages
from s2s.generation.sentences import one_result_each, sentences_of
from s2s.generation.source_labels import lack_labels, with_labels
from s2s.generation.workers import search_shared
from s2s.model import Seq2Seq, evaluating
from s2s.task import Constraint, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s.decoding import Hypothesis
    from s2s.generation.segments import Segment
    from s2s.plugin import Plugins


@dataclass(eq=False)
class Searcher:
    """A search by a network of torch, and everything that it needs besides the segments.

    The network's training mode is restored between outputs or, if threads or processes search, after the last.
    """

    model: Seq2Seq
    search: Search
    task: Task
    device: torch.device
    config: GenerateConfig
    stages: Sequence[OutputStage]
    constraint: Constraint | None
    """On every output"""
    transforms: Sequence[LogitsTransform] = ()
    shortlist: Shortlist | None = None
    """The model's, if it has one"""
    has_searched: bool = field(default=False, init=False)
    """Whether any sentence was searched"""

    @classmethod
    def build(
        cls,
        model: Seq2Seq,
        task: Task,
        search: Search,
        device: torch.device | str,
        config: GenerateConfig | None = None,
        plugins: Plugins | None = None,
        shortlist: Shortlist | None = None,
    ) -> Self:
        """The search that the options describe; shortlist: the model's.

        plugins: provide constraints, transforms and output stages; not needed if no option requires them.
        """
        device = torch.device(device)
        config = config or (plugins.registry.with_options(GenerateConfig) if plugins else GenerateConfig)()
        config = replace(config, tokens=config.tokens or device_of(device).search_tokens)
        constraint = output_constraint(config, task, registered_constraints(plugins))
        stages = build_stages(config, task, lambda: model, device, plugins)
        transforms = build_transforms(config.transforms, task, plugins.registry) if plugins else []
        return cls(model, search, task, device, config, stages, constraint, transforms, shortlist)

    @property
    def max_len(self) -> int | None:
        """Longest source of the model, in tokens with eos; None: any."""
        return self.model.max_len

    @property
    def name(self) -> str:
        """The name of the search in errors: that of the function, or of the class."""
        return getattr(self.search, "__qualname__", type(self.search).__name__)

    def accepts(self, sentence: SourceSentence) -> bool:
        """Every sentence."""
        return True

    def has_more_to_do(self, sentence: SourceSentence, hypotheses: Sequence[Hypothesis]) -> bool:
        """Whether `after_stages` changes what `queued` has found for a sentence."""
        needs_labels = any(stage.reads_labels for stage in self.stages) and lack_labels(hypotheses)
        return needs_labels or any(stage.processes(sentence) for stage in self.stages)

    def with_model(self) -> Self:
        """Itself."""
        return self

    def aligning(self, plugins: Plugins | None) -> Self | None:
        """The same search with aligned outputs; None if the architecture gives no attention, or no plugin aligns."""
        options = copy(self.config)  # not `replace`: options of the user's format would be errors without it
        options.format, options.fields = "jsonl", [*self.config.fields, "align"]
        try:
            return replace(
                self, config=options, stages=build_stages(options, self.task, lambda: self.model, self.device, plugins)
            )
        except ConfigError:
            return None

    def __call__(self, segments: Sequence[Segment]) -> Iterator[Iterable[SearchResult]]:
        """The result of each segment that has tokens, by its index, as soon as it is known."""
        sentences = sentences_of(segments, self.task.vocab)
        self.has_searched = self.has_searched or bool(sentences)
        shared = search_shared(self._results, sentences, self.config, self.device.type)
        results = self._results(sentences) if shared is None else self._evaluating(shared)
        return one_result_each(results, sentences, self.name)

    def _evaluating(self, results: Iterable[Iterable[SearchResult]]) -> Iterator[Iterable[SearchResult]]:
        """All results, without dropout until the last, since other threads may use the model between two results."""
        with evaluating(self.model):
            yield from results

    def _results(self, sentences: Sequence[SourceSentence]) -> Iterator[Iterable[SearchResult]]:
        sources = {sentence.index: sentence for sentence in sentences}
        request = self.request(FixedQueue(sentences, self.config.tokens * self._parts_of_a_word(sentences)))
        results = self.after_stages(self.search(request), sources)
        while True:
            with evaluating(self.model), self.precision():
                some = next(results, None)
            if some is None:
                return
            yield some

    def queued(self, queue: SentenceQueue) -> Iterator[Iterable[SearchResult]]:
        """The result of each sentence of a queue, as soon as it is known; before stages. All is done in one thread."""
        with evaluating(self.model), self.precision():
            yield from self.search(self.request(queue))

    def after_stages(
        self, results: Iterable[Iterable[SearchResult]], sources: Mapping[int, SourceSentence]
    ) -> Iterator[Iterable[SearchResult]]:
        """The results of a search after all stages."""
        if any(stage.reads_labels for stage in self.stages):
            results = with_labels(results, sources, self.model, self.task.vocab, self.config.tokens)
        for stage in self.stages:
            results = stage.results(results, sources)
        return iter(results)

    def _parts_of_a_word(self, sentences: Sequence[SourceSentence]) -> int:
        """Source tokens per word if the vocabulary marks the tokens that begin words, since the decoder then attends
        only to words; else 1."""
        begins = self.task.vocab.word_begins
        n_tokens = sum(len(sentence.ids) for sentence in sentences)
        n_words = sum(begins[i] for sentence in sentences for i in sentence.ids) if begins else n_tokens
        return max(1, n_tokens // max(n_words, 1))

    def request(self, queue: SentenceQueue) -> SearchRequest:
        """The request to search these sentences."""
        return SearchRequest(
            model=self.model,
            vocab=self.task.vocab,
            queue=queue,
            device=self.device,
            constraint=self.constraint,
            nbest=self.config.n_outputs(self.search.config.beam if isinstance(self.search, BeamSearch) else None),
            transforms=self.transforms,
            shortlist=self.shortlist if self.config.shortlist and self.constraint is None else None,
        )

    def model_request(self) -> SearchRequest:
        """What is the same for all searches of the model, without sentences."""
        constraint, queue = self.task.constraint(), FixedQueue([], 1)
        return replace(self.request(queue), constraint=constraint, transforms=(), shortlist=self.shortlist)

    def precision(self) -> torch.autocast:
        """The context in which every step of the search runs."""
        return device_of(self.device).autocast(DTYPES[self.config.precision])
