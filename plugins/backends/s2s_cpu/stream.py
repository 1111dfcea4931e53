"""A search, or sampling, of sentences that come and go, as an object in C: from their tokens to those of their outputs.

Results have the same bits as those of single steps, whatever sentences are searched beside them; those of sampling, as
those of single steps that draw one sample. No torch at import.
"""

from __future__ import annotations

__all__ = ["Stream", "StreamOutput", "StreamResult", "StreamSentence"]

import ctypes
import itertools
import weakref
from array import array
from typing import TYPE_CHECKING, NamedTuple

from s2s.decoding import SearchResult
from s2s_cpu.library import call
from s2s_cpu.structs import AdmissionStruct, FoundStruct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from s2s.decoding import ActiveSentence
    from s2s_cpu.structs import ModelStruct, SearchStruct, SourceModelStruct


class StreamSentence(NamedTuple):
    """A sentence to be searched."""

    number: int
    """Identifies its result"""
    tokens: Sequence[int]
    """Source tokens, eos included, at least one; all must be in the table of embeddings"""
    limit: int
    """Most tokens of an output, without eos; at least 1"""
    n_best: int
    """Outputs that are wanted, at least 1 and at most the beam"""
    start: Sequence[int]
    """The target tokens before an output, at least one"""
    state: Sequence[int] = ()
    """Of the settings' automaton, before an output; empty if there is none"""
    keys: Sequence[int] = ()
    """Of its `n_best` samples (`SourceSentence.sampling_key`), if tokens are drawn"""


class StreamOutput(NamedTuple):
    """A finished output, or a sample."""

    tokens: list[int]
    """Without eos"""
    score: float
    """0 of a sample"""
    log_probs: list[float]
    """Of each token, and of eos"""


class StreamResult(NamedTuple):
    """The outputs of a sentence."""

    number: int
    """Of the sentence"""
    outputs: list[StreamOutput]
    """Best first, or sample by sample; there may be none"""
    sampled: bool
    """Whether they are samples"""
    labels: list[int] | None = None
    """Of its source words, if the model has learnt any"""

    def recorded_as(self, sentence: ActiveSentence) -> SearchResult:
        """The result of a search, from the host's record of the sentence."""
        if self.sampled:
            return sentence.sampling_result(((one.tokens, one.log_probs) for one in self.outputs), self.labels)
        hypotheses = [sentence.hypothesis(one.tokens, one.score, one.log_probs, self.labels) for one in self.outputs]
        return SearchResult(sentence.index, hypotheses)


class Stream:
    """The search of a model's sentences."""

    def __init__(self, source: SourceModelStruct, target: ModelStruct, settings: SearchStruct) -> None:
        """Structures are copied, but what they point to must outlive the stream.

        settings: without arrays of sentences and states; a `stop_rank` of 0 is the `n_best` of each sentence.
        """
        self.source = type(source).from_buffer_copy(source)
        """`positions` has an encoding for each source token of the longest sentence that is admitted"""
        self.target = type(target).from_buffer_copy(target)
        """`positions` has `n_positions`, of which no output needs more than its limit and its starting tokens"""
        self.n_positions = 0
        """Set with `target.positions`: `run` stops before a step for which there are too few"""
        self.settings = type(settings).from_buffer_copy(settings)
        """`penalty` has three more than the highest limit; steps stop at `admission_threshold`, see `run`"""
        self.n_sentences = 0
        """That are not done"""
        self.n_source = 0
        """Their source tokens"""
        self.longest = 0
        """Tokens of their longest hypothesis and all starting tokens but one, as many as have had positions"""
        self._address = ctypes.c_void_p()
        structs = map(ctypes.byref, (self.source, self.target, self.settings))
        call("s2s_stream_new", *structs, ctypes.byref(self._address))
        weakref.finalize(self, call, "s2s_stream_free", self._address)

    def admit(self, sentences: Sequence[StreamSentence]) -> None:
        """Encode sentences, which join the others; the longest first takes the least time."""
        tokens, starts, states, keys = (
            array("q", itertools.chain.from_iterable(getattr(one, name) for one in sentences))
            for name in ("tokens", "start", "state", "keys")
        )
        n_source, n_start = (array("q", [len(getattr(one, name)) for one in sentences]) for name in ("tokens", "start"))
        columns = (array("q", [getattr(one, name) for one in sentences]) for name in ("limit", "number", "n_best"))
        arrays = tokens, n_source, *columns, n_start, starts, states, keys
        admission = AdmissionStruct(len(sentences), *(one.buffer_info()[0] for one in arrays))
        call("s2s_stream_admit", self._address, ctypes.byref(admission))
        self.n_sentences += len(sentences)
        self.n_source += len(tokens)

    def run(self, max_steps: int) -> list[StreamResult]:
        """Run up to `max_steps` steps, and stop after the first step in which a sentence is done and the others have no
        more than `settings.admission_threshold` source tokens; the results of all that are done."""
        found = FoundStruct()
        max_steps = min(max_steps, self.n_positions - self.longest)
        call("s2s_stream_run", self._address, max_steps, ctypes.byref(found))
        self.n_sentences, self.n_source, self.longest = found.n_sentences, found.n_source, found.longest
        if not found.n_numbers:
            return []
        sampled = self.settings.sampling.temperature > 0
        return list(_results(found.numbers[: found.n_numbers], found.values[: found.n_values], sampled))

    def cancel(self, numbers: Collection[int]) -> None:
        """Remove the sentences with these numbers, as far as they are not done."""
        given = array("q", numbers)
        call("s2s_stream_cancel", self._address, given.buffer_info()[0], len(given))
        self.run(0)


def _results(numbers: Sequence[int], values: Sequence[float], sampled: bool) -> Iterator[StreamResult]:
    """Results from numbers one after the other; see stream.h."""
    at = first = 0
    while at < len(numbers):
        number, n_labels, begin, outputs = numbers[at], numbers[at + 1], at + 2, list[StreamOutput]()
        at = begin + max(n_labels, 0)
        labels = None if n_labels < 0 else list(numbers[begin:at])
        n_outputs, at = numbers[at], at + 1
        for _ in range(n_outputs):
            end, last = at + 1 + numbers[at], first + 2 + numbers[at]
            outputs.append(StreamOutput(list(numbers[at + 1 : end]), values[first], list(values[first + 1 : last])))
            at, first = end, last
        yield StreamResult(number, outputs, sampled, labels)
