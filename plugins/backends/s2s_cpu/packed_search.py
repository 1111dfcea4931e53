"""Searches with a model in a file, in a process that may never import torch: see `s2s.generation.packed`."""

from __future__ import annotations

__all__ = ["PackedSearch"]

import ctypes
from array import array
from typing import TYPE_CHECKING, Any

from s2s.decoding import ActiveSentence
from s2s_cpu.automaton import Automaton
from s2s_cpu.stream import Stream, StreamSentence
from s2s_cpu.structs import SEARCH_SETTINGS, SamplingRuleStruct, SearchStruct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.decoding import SearchResult, SentenceQueue, SourceSentence
    from s2s_cpu.packed_model import PackedModel

TABLES = {"banned": "q", "penalty": "f", "logit_scale": "f", "logit_bias": "f"}
"""Tables of a search, and the types of their numbers; an empty one is none"""


class PackedSearch:
    """A search whose results have the same bits as those of the search that it was made of."""

    def __init__(self, model: PackedModel, settings: Mapping[str, Any]) -> None:
        self.model, self.n, self.limits = model, settings["nbest"], settings["limits"]
        self.n_target, self.max_len = settings["n_target"], settings["max_len"]
        self.start: tuple[int, ...] = tuple(settings["starting_tokens"])
        self.struct = SearchStruct(**{name: settings[name] for name in SEARCH_SETTINGS})
        self.tables = {name: array(kind, settings[name]) for name, kind in TABLES.items()}  # own what is pointed to
        for name, table in self.tables.items():
            setattr(self.struct, name, table.buffer_info()[0] if table else None)
        self.sampling, self.seed = settings["sampling"], settings["seed"]
        if self.sampling:
            temperature, top_k, top_p = self.sampling
            self.struct.sampling = SamplingRuleStruct(top_k, top_p, temperature)
        self.struct.n_banned = len(self.tables["banned"])
        self.automaton = Automaton(settings["automaton"]) if settings["automaton"] else None
        self.struct.automaton = self.automaton.address if self.automaton else None
        self.struct.shortlist = ctypes.addressof(model.shortlist) if model.shortlist else None

    def accepts(self, sentence: SourceSentence) -> bool:
        """Whether it searches this sentence: not with a constraint of its own, and of no unusual length."""
        ids, start = sentence.ids, self._start(sentence)
        is_source = 0 < len(ids) <= len(self.limits) and min(ids) >= 0 and max(ids) < self.model.n_tokens
        if sentence.constraint is not None or not is_source or min(start) < 0 or max(start) >= self.n_target:
            return False
        has_room = 0 < self._limit(sentence) <= self.model.n_positions - len(start)
        return has_room and self._state(sentence) is not None

    def __call__(self, queue: SentenceQueue) -> Iterator[list[SearchResult]]:
        """The result of each sentence of the queue, as soon as it is known."""
        stream, records = Stream(self.model.source, self.model.target, self.struct), dict[int, ActiveSentence]()
        stream.n_positions = self.model.n_positions
        while (admitted := queue.admit(stream.n_source)) or stream.n_sentences:
            records.update((one.index, self._record(one)) for one in admitted)
            if admitted:
                stream.admit([self._sentence(one) for one in admitted])
            if cancelled := queue.take_cancelled():
                stream.cancel(cancelled)
                for index in cancelled:
                    records.pop(index, None)
            stream.settings.admission_threshold = queue.stop_threshold
            found = stream.run(queue.steps_at_once)
            yield [one.recorded_as(records.pop(one.number)) for one in found]

    def _start(self, sentence: SourceSentence) -> Sequence[int]:
        return sentence.starting_tokens or self.start

    def _limit(self, sentence: SourceSentence) -> int:
        """Most tokens of its output, without eos; below 1: starting tokens leave no room in the model."""
        limit: int = self.limits[len(sentence.ids) - 1]
        return min(limit, self.max_len - len(self._start(sentence))) if self.max_len else limit

    def _state(self, sentence: SourceSentence) -> Sequence[int] | None:
        """Of the automaton, before an output; None: there is one, and the sentence has none."""
        return self.automaton.start(sentence.ids, self._limit(sentence)) if self.automaton else ()

    def _record(self, sentence: SourceSentence) -> ActiveSentence:
        return ActiveSentence(sentence.index, len(sentence.ids), limit=self._limit(sentence))

    def _sentence(self, sentence: SourceSentence) -> StreamSentence:
        limit, start, state = self._limit(sentence), self._start(sentence), self._state(sentence) or ()
        n_best = min(sentence.nbest or self.n, self.n)
        keys = [sentence.sampling_key(self.seed, k) for k in range(n_best)] if self.sampling else ()
        return StreamSentence(sentence.index, sentence.ids, limit, n_best, start, state, keys)
