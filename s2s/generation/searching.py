"""The search over a window of units, the longest first, as many at once as there is room for."""

from __future__ import annotations

__all__ = ["Searcher"]

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from s2s.batch import make_batch
from s2s.config import GenerateConfig
from s2s.decoding import Found, Hypothesis, Search, StreamingSearch
from s2s.decoding.lexical import add_lexical, bind_lexical
from s2s.decoding.queue import Queue, Source
from s2s.generation.attention import AttentionReader
from s2s.io.workers import run_in_processes
from s2s.model import Seq2Seq, evaluating
from s2s.task import Constraint, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.generation.reading import Unit

AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}

WORTH_A_WORKER = 8
"""Units without which another process is not worth its beginning"""


@dataclass(frozen=True)
class Searcher:
    """A search, and all that it needs beside the units."""

    model: Seq2Seq
    search: Search
    vocab: Vocab
    device: torch.device
    config: GenerateConfig
    attend: AttentionReader
    constraint: Constraint | None
    """On every output; what is asked of single ones comes to it"""

    def __call__(self, units: Sequence[Unit]) -> Iterator[Iterable[Found]]:
        """What is found for those that have symbols, by their places, as soon as it is there."""
        places = sorted((i for i, unit in enumerate(units) if unit.ids), key=lambda i: -len(units[i].ids))
        sources = [Source(i, [*units[i].ids, self.vocab.eos], units[i].wish) for i in places]
        n_workers = min(self.config.workers, len(sources) // WORTH_A_WORKER)
        if n_workers < 2:
            return self._found(sources)
        shares = [sources[i::n_workers] for i in range(n_workers)]
        values = run_in_processes([lambda share=share: map(_as_values, self._found(share)) for share in shares])  # type: ignore[misc]
        return map(_from_values, values)

    def _found(self, sources: list[Source]) -> Iterator[Iterable[Found]]:
        dtype = AUTOCAST[self.config.precision]
        constraint = add_lexical(self.constraint, [source.wish for source in sources], self.vocab)
        find = self._stream if isinstance(self.search, StreamingSearch) else self._batches
        found = iter(self.attend(find(sources, constraint), {source.place: source.ids for source in sources}))
        while True:
            with evaluating(self.model), torch.autocast(self.device.type, dtype, enabled=dtype is not None):
                some = next(found, None)
            if some is None:
                return
            yield some

    def _stream(self, sources: list[Source], constraint: Constraint | None) -> Iterator[Iterable[Found]]:
        assert isinstance(self.search, StreamingSearch)
        queue = Queue(sources, self.config.tokens)
        return self.search.stream(self.model, queue, self.vocab, self.device, constraint, self.config.n_candidates)

    def _batches(self, sources: list[Source], constraint: Constraint | None) -> Iterator[Iterable[Found]]:
        """For a search that knows batches alone: one ends before the next begins."""
        queue = Queue(sources, self.config.tokens)
        while batch := queue.admit(0):
            rows = make_batch([(source.ids[:-1], []) for source in batch], self.vocab).to(self.device)
            of_batch = bind_lexical(constraint, [source.wish for source in batch])
            outputs = self.search(self.model, rows.src, rows.src_pad, self.vocab, of_batch, self.config.n_candidates)
            yield [Found(source.place, hypotheses) for source, hypotheses in zip(batch, outputs, strict=True)]


def _as_values(some: Iterable[Found]) -> list[tuple[int, list[dict[str, Any]]]]:
    """As JSON can hold it; numbers come back to the bit."""
    return [(found.place, [asdict(hypothesis) for hypothesis in found.hypotheses]) for found in some]


def _from_values(values: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[Found]:
    return [Found(place, [Hypothesis(**fields) for fields in hypotheses]) for place, hypotheses in values]
