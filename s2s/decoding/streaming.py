"""A batch that stays full: sentences that are done leave it, and those that wait take their places.

Whatever a search does with a batch, this is how sentences come and go. Shapes: B sentences, S source length.
"""

from __future__ import annotations

__all__ = ["ActiveBatch", "BatchedSearch", "Streaming", "padded", "staying"]

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from s2s.backend.cuda_graph import bucket_size
from s2s.decoding.lexical import lexical_of
from s2s.decoding.queue import Queue, Source
from s2s.model import State
from s2s.tensors import map_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.decoding import Found, Hypothesis
    from s2s.model import Seq2Seq
    from s2s.task import Constraint, Vocab


class ActiveSentence(Protocol):
    """What the host knows of a sentence."""

    @property
    def n_source(self) -> int:
        """Its symbols, with eos"""
        ...


S = TypeVar("S", bound=ActiveSentence)


@dataclass(frozen=True, kw_only=True)
class ActiveBatch(ABC, Generic[S]):
    """Sentences on which a search is at work; a search adds tensors [B, ...]."""

    sentences: list[S]
    state: State
    """The model's"""
    automaton: Tensor | None
    """[B, ·, ·], the constraint's"""

    @property
    def n_source(self) -> int:
        """Source symbols of all sentences."""
        return sum(sentence.n_source for sentence in self.sentences)

    def keep(self, rows: Tensor) -> Self:
        """Those of the sentences `rows` [B']"""
        sentences = [self.sentences[i] for i in rows.tolist()]
        kept = map_tensors(lambda t: t.index_select(0, rows), self.tensors())
        return replace(self, sentences=sentences, state=self.state.keep(rows), **kept)

    def can_join(self, other: Self) -> bool:
        """Whether the model's states and the constraint's fit together."""
        if self.automaton is not None and other.automaton is not None:
            return self.state.joins and self.automaton.shape[2:] == other.automaton.shape[2:]
        return self.state.joins

    @abstractmethod
    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""

    def tensors(self) -> dict[str, Any]:
        """All but the model's state."""
        return {name: x for name, x in vars(self).items() if name not in ("sentences", "slack", "state")}


B = TypeVar("B", bound=ActiveBatch[Any])


class Streaming(ABC, Generic[B]):
    """One search, over sentences that come and go."""

    waiting: B | None = None
    """Newcomers that have been let in, but could not join the others"""

    @abstractmethod
    def start(self, sources: list[Source]) -> B:
        """Before the first symbol."""

    @abstractmethod
    def grow(self, batch: B) -> B:
        """One symbol longer."""

    @abstractmethod
    def over(self, batch: B) -> Tensor:
        """Which sentences are done: [B]"""

    @abstractmethod
    def found(self, batch: B, row: int) -> Found:
        """The outputs of a sentence that is done."""

    @abstractmethod
    def without(self, batch: B, over: Tensor) -> B | None:
        """The sentences that go on; None: there are none."""

    def run(self, queue: Queue) -> Iterator[list[Found]]:
        """What is found for the sentences of a queue, in the order in which their searches end."""
        batch: B | None = None
        while True:
            batch = self.admit(batch, queue)
            if batch is None:
                return
            over = self.over(batch)
            if over.any():
                yield [self.found(batch, row) for row in over.nonzero()[:, 0].tolist()]
                batch = self.without(batch, over)
            if batch is not None:
                batch = self.grow(batch)

    def admit(self, batch: B | None, queue: Queue) -> B | None:
        """With those that wait, as far as there is room and the states can be joined."""
        if batch is None and self.waiting is not None:
            batch, self.waiting = self.waiting, None
        if self.waiting is not None or (batch is not None and not batch.state.joins):
            return batch
        sources = queue.admit(0 if batch is None else batch.n_source)
        if not sources:
            return batch
        newcomers = self.grow(self.start(sources))
        if batch is None:
            return newcomers
        if batch.can_join(newcomers):
            return batch.join(newcomers)
        self.waiting = newcomers
        return batch


def staying(over: Tensor) -> Tensor:
    """The rows that go on, the last of them in the places of those that are `over` [B], so that few are moved."""
    n = int((~over).sum())
    rows = torch.arange(n, device=over.device)
    rows[over[:n]] = n + (~over[n:]).nonzero()[:, 0]
    return rows


def padded(sources: Sequence[Source], vocab: Vocab, device: torch.device) -> tuple[Tensor, Tensor]:
    """Their symbols, and True at padding: [B, S]"""
    ids = [torch.tensor(source.ids, dtype=torch.long) for source in sources]
    n_symbols = torch.tensor([len(row) for row in ids])
    pad = torch.arange(bucket_size(int(n_symbols.max()), device, least=32)) >= n_symbols[:, None]
    src = torch.full(pad.shape, vocab.pad).masked_scatter(~pad, torch.cat(ids))
    return src.to(device), pad.to(device)


class BatchedSearch(ABC):
    """A `StreamingSearch` that is told how to stream."""

    @abstractmethod
    def stream(
        self,
        model: Seq2Seq,
        queue: Queue,
        vocab: Vocab,
        device: torch.device,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> Iterator[list[Found]]:
        """What is found for the sentences of a queue, in the order in which their searches end."""

    def __call__(
        self,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> list[list[Hypothesis]]:
        """At most `nbest` outputs for each source, best first: src, pad [B, S]."""
        rows = zip(src, pad, lexical_of(constraint, src.size(0)), strict=True)
        sources = (Source(i, row[~gap].tolist(), wish) for i, (row, gap, wish) in enumerate(rows))
        outputs: list[list[Hypothesis]] = [[] for _ in range(src.size(0))]
        for found in self.stream(model, Queue(sources, max(src.numel(), 1)), vocab, src.device, constraint, nbest):
            for place, hypotheses in found:
                outputs[place] = hypotheses
        return outputs
