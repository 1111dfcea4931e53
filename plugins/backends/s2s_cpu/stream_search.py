"""The stream of a model's sentences, with the tables of encodings that it needs. Shapes: P positions, D = d_model."""

from __future__ import annotations

__all__ = ["StreamSearch", "shortlist_struct"]

import ctypes
from array import array
from typing import TYPE_CHECKING, Any

import torch

from s2s.decoding import ActiveSentence
from s2s_cpu.beam_search_steps import point_to_tables
from s2s_cpu.search_constraint import output_rules
from s2s_cpu.search_settings import beam_settings, repeats_struct, sampling_settings
from s2s_cpu.stream import Stream, StreamSentence
from s2s_cpu.stream_model import StreamModel
from s2s_cpu.structs import SearchStruct, ShortlistStruct, TokenListsStruct

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import Tensor

    from s2s.backend import fused
    from s2s.decoding import SearchRequest, SearchResult, SourceSentence, StreamingSearch
    from s2s_cpu.search_constraint import OutputRules


class StreamSearch:
    """That of a model from source tokens to logits, whose structures are made once; see `s2s.backend.fused`."""

    def __init__(self, source: fused.FusedSource, target: fused.FusedModel, positions: fused.PositionTables) -> None:
        self.model, self.positions, self.n_tokens = StreamModel(source, target), positions, source.n_tokens

    def __call__(self, search: StreamingSearch[Any], run: Any) -> SearchStream | None:
        """None if there are too few tokens to fill the beam, or for a constraint that is more than tables and what
        options of searches set."""
        rules, vocab = output_rules(run.request.constraint, run.request.vocab), run.request.vocab
        if rules is None or (not run.sampling and search.config.beam > vocab.tgt):
            return None
        return SearchStream(self, search, run, rules)


class SearchStream:
    """The stream of a run; see `s2s.backend.fused`."""

    def __init__(self, model: StreamSearch, search: StreamingSearch[Any], run: Any, rules: OutputRules) -> None:
        self.search, self.request = model, run.request  # not the run, which would keep itself alive by its stream
        self.automaton, self.samples, self.seed = rules.automaton, bool(run.sampling), run.seed
        struct = stream_settings(search, run)
        struct.automaton = rules.automaton.address if rules.automaton else None
        struct.min_len = rules.min_len
        penalty = run.transforms.penalty
        self.penalized = array("q", penalty.starting_tokens)
        struct.repeats = repeats_struct(
            rules.no_repeat_ngram_size, penalty.penalty, self.penalized, changes_log_probs=penalty.changes_log_probs
        )
        self.shortlist = shortlist_struct(self.request)
        struct.shortlist = ctypes.addressof(self.shortlist) if self.shortlist else None
        self.stream = Stream(model.model.source, model.model.target, struct)
        self.longest_source = self.longest_target = 0
        self.src_positions: Tensor | None = None
        self.tgt_positions: Tensor | None = None
        self.penalties: Tensor | None = None
        self.records: dict[int, ActiveSentence] = {}

    @property
    def n_source(self) -> int:
        """Source tokens of all sentences."""
        return self.stream.n_source

    def admit(self, run: Any, sentences: Sequence[SourceSentence], limits: Sequence[int]) -> Sequence[SourceSentence]:
        """Those that have a token that is in no table, or with which no output can begin, are returned."""
        taken, others = [], []
        for sentence, limit in zip(sentences, limits, strict=True):
            ids, index = sentence.ids, sentence.index
            state = self.automaton.start(ids, limit) if self.automaton else ()
            if min(ids) < 0 or max(ids) >= self.search.n_tokens or state is None:
                others.append(sentence)
                continue
            self.records[index] = ActiveSentence(index, len(ids), limit=limit)
            start = self.request.starting_tokens(sentence)
            self._extend_tables(len(ids), limit + len(start))
            n_best = min(sentence.nbest or self.request.nbest, self.request.nbest)
            keys = [sentence.sampling_key(self.seed, k) for k in range(n_best)] if self.samples else ()
            taken.append(StreamSentence(index, ids, limit, n_best, start, state, keys))
        if not self.samples:
            self.penalties = run.penalties
            self.stream.settings.penalty = run.penalties.data_ptr()
        self.stream.admit(taken)
        return others

    def _extend_tables(self, n_source: int, n_target: int) -> None:
        """Point to positions of sources of up to so many tokens, and let outputs have up to so many."""
        if n_source > self.longest_source:
            self.longest_source, self.src_positions = n_source, self.search.positions.src(n_source)
            self.stream.source.positions = _address(self.src_positions)
        self.longest_target = max(self.longest_target, n_target)

    def _extend_positions(self) -> None:
        """Point to more positions of outputs, if the longest needs them: limits may be far beyond what occurs."""
        if self.stream.longest < self.stream.n_positions:
            return
        n = min(self.longest_target, max(64, 2 * self.stream.longest))
        self.stream.n_positions, self.tgt_positions = n, self.search.positions.tgt(n)
        self.stream.target.positions = _address(self.tgt_positions)

    def steps(self, max_steps: int) -> list[SearchResult]:
        """The results of the sentences that are done."""
        self._extend_positions()
        self.stream.settings.admission_threshold = self.request.queue.stop_threshold
        return [found.recorded_as(self.records.pop(found.number)) for found in self.stream.run(max_steps)]

    def cancel(self, indices: Collection[int]) -> None:
        """Remove the sentences with these indices."""
        self.stream.cancel(indices)
        for index in indices:
            self.records.pop(index, None)


def stream_settings(search: StreamingSearch[Any], run: Any) -> SearchStruct:
    """The settings of a search, with the tables of its run. Sentences may differ in how many outputs are wanted, and
    then in when they are done."""
    eos, normalize = run.request.vocab.eos, run.request.normalize
    if run.sampling:
        settings = sampling_settings(run.sampling, eos, run.request.nbest, normalize=normalize)
    else:
        settings = beam_settings(search.config, eos, 0, normalize=normalize)
    point_to_tables(settings, run)
    return settings


def shortlist_struct(request: SearchRequest) -> ShortlistStruct | None:
    """The structure of a request's shortlist, whose memory it points to; None if the model has none, or reads none.

    Raises ValueError for another than the functions can read.
    """
    lists = request.shortlist
    if lists is None or not request.model.reads_shortlists:
        return None
    if not all(x.dtype is torch.int64 and x.is_contiguous() for x in lists):
        raise ValueError("a shortlist has tensors that are not int64 and contiguous")
    lists.check(request.vocab.tgt)
    of_source = TokenListsStruct(lists.offsets.data_ptr(), lists.tokens.data_ptr())
    sizes = len(lists.always), len(lists.offsets) - 1, lists.multiple
    return ShortlistStruct(*sizes, lists.always.data_ptr(), of_source)


def _address(table: Tensor | None) -> int | None:
    return None if table is None else table.data_ptr()
