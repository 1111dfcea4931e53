"""Searches with a model in a file, in a process that may never import torch: see `s2s.generation.packed`."""

from __future__ import annotations

__all__ = ["PackedSearch", "packed_search"]

import ctypes
import sys
from array import array
from typing import TYPE_CHECKING, Any

from s2s.decoding import ActiveSentence, BeamConfig, SampleConfig
from s2s_cpu.automaton import Automaton
from s2s_cpu.search_settings import beam_settings, repeats_struct, sampling_settings
from s2s_cpu.stream import Stream, StreamSentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Vocab
    from s2s.decoding import SearchResult, SentenceQueue, SourceSentence
    from s2s_cpu.packed_model import PackedModel

MANY_PENALTIES = 4096
"""Beyond these no more than are needed are computed: they take 2 ms"""


def packed_search(
    model: PackedModel, options: BeamConfig | SampleConfig, vocab: Vocab, nbest: int, *, constrained: bool, listed: bool
) -> PackedSearch | None:
    """The search that options describe, a `BeamConfig` or `SampleConfig`; None if functions in C cannot follow them.

    constrained: whether the task's constraint applies to outputs. listed: whether they consist of the tokens of the
    model's shortlist, if it has one and no token is forbidden.
    """
    automaton = Automaton(model.automaton) if constrained and model.automaton else None
    if constrained and model.is_constrained and not (automaton and automaton.first):
        return None
    forbids = automaton is not None or options.min_len > 0 or options.no_repeat_ngram_size > 0
    if isinstance(options, BeamConfig) and options.renormalize and forbids:
        return None
    return PackedSearch(model, options, vocab, nbest, automaton, listed=listed and not forbids)


class PackedSearch:
    """A search whose results have the same bits as those of `BeamSearch`, or of sampling, with the model itself."""

    def __init__(
        self,
        model: PackedModel,
        options: BeamConfig | SampleConfig,
        vocab: Vocab,
        nbest: int,
        automaton: Automaton | None,
        *,
        listed: bool,
    ) -> None:
        self.model, self.options, self.vocab, self.n, self.automaton = model, options, vocab, nbest, automaton
        self.tables = _tables(options, vocab)  # own what is pointed to
        normalize = not options.sums_changed_log_probs
        if isinstance(options, SampleConfig):
            self.struct = sampling_settings(options, vocab.eos, nbest, normalize=normalize)
        else:
            self.struct = beam_settings(options, vocab.eos, 0, normalize=normalize)
        for name, table in self.tables.items():
            setattr(self.struct, name, table.buffer_info()[0])
        self.struct.n_banned = len(self.tables["banned"])
        self.struct.min_len = options.min_len
        self.starting_tokens = array("q", vocab.starting_tokens)
        self.struct.repeats = repeats_struct(
            *(options.no_repeat_ngram_size, options.repetition_penalty, self.starting_tokens),
            changes_log_probs=options.penalizes_log_probs,
        )
        self.struct.automaton = self.automaton.address if self.automaton else None
        self.struct.shortlist = ctypes.addressof(model.shortlist) if listed and model.shortlist else None

    @property
    def max_len(self) -> int | None:
        """Longest source of the model, in tokens with eos; None: any."""
        return self.model.max_len

    def accepts(self, sentence: SourceSentence) -> bool:
        """Whether it searches this sentence: not with a constraint of its own, and of no unusual length."""
        ids, start, model = sentence.ids, self._start(sentence), self.model
        n_positions = sys.maxsize if model.n_positions is None else model.n_positions
        is_source = 0 < len(ids) <= n_positions and min(ids) >= 0 and max(ids) < model.n_tokens
        if sentence.constraint is not None or not is_source or min(start) < 0 or max(start) >= self.vocab.tgt:
            return False
        if model.max_len and len(start) >= model.max_len:
            return False
        return self._limit(sentence) <= n_positions - len(start) and self._state(sentence) is not None

    def __call__(self, queue: SentenceQueue) -> Iterator[list[SearchResult]]:
        """The result of each sentence of the queue, as soon as it is known."""
        self.options.check_nbest(self.n)
        stream, records = Stream(self.model.source, self.model.target, self.struct), dict[int, ActiveSentence]()
        stream.n_positions = sys.maxsize if self.model.n_positions is None else self.model.n_positions
        penalties = array("f")  # owned here
        while (admitted := queue.admit(stream.n_source)) or stream.n_sentences:
            records.update((one.index, self._record(one)) for one in admitted)
            if admitted and isinstance(self.options, BeamConfig):
                penalties = _extended(penalties, self.options, max(map(self._limit, admitted)) + 3)
                stream.settings.penalty = penalties.buffer_info()[0]
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
        return sentence.starting_tokens or self.vocab.starting_tokens

    def _limit(self, sentence: SourceSentence) -> int:
        """Most tokens of its output, without eos."""
        return self.options.max_output_length(len(sentence.ids) - 1, self.model.max_len, len(self._start(sentence)))

    def _state(self, sentence: SourceSentence) -> Sequence[int] | None:
        """Of the automaton, before an output; None: there is one, and the sentence has none."""
        return self.automaton.start(sentence.ids, self._limit(sentence)) if self.automaton else ()

    def _record(self, sentence: SourceSentence) -> ActiveSentence:
        return ActiveSentence(sentence.index, len(sentence.ids), limit=self._limit(sentence))

    def _sentence(self, sentence: SourceSentence) -> StreamSentence:
        limit, start, state = self._limit(sentence), self._start(sentence), self._state(sentence) or ()
        n_best = min(sentence.nbest or self.n, self.n)
        seed = self.options.seed if isinstance(self.options, SampleConfig) else None
        keys = () if seed is None else [sentence.sampling_key(seed, k) for k in range(n_best)]
        return StreamSentence(sentence.index, sentence.ids, limit, n_best, start, state, keys)


def _extended(penalties: array[float], options: BeamConfig, n: int) -> array[float]:
    """At least the first n length penalties; where there are too few, somewhat more, since others will come."""
    return penalties if len(penalties) >= n else options.penalties(max(n, min(2 * n, MANY_PENALTIES)))


def _tables(options: BeamConfig | SampleConfig, vocab: Vocab) -> dict[str, array[Any]]:
    """What settings point to, besides length penalties."""
    tables: dict[str, array[Any]] = {"banned": array("q", options.banned(vocab))}
    if isinstance(options, BeamConfig) and (affine := options.affine(vocab)):
        tables |= {"logit_scale": affine.scale, "logit_bias": affine.bias}
    return tables
