"""What a plugin provides whose functions decode without torch: see `s2s.generation.packed`."""

from __future__ import annotations

__all__ = ["PackedFormat", "PackedModel", "PackedSearch"]

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s.decoding import BeamConfig, SampleConfig, SearchRequest, SearchResult, SentenceQueue, SourceSentence
    from s2s.vocab import Vocab


class PackedSearch(Protocol):
    """The search of a model in a file."""

    @property
    def max_len(self) -> int | None:
        """Longest source of the model, in tokens with eos; None: any."""

    def accepts(self, sentence: SourceSentence) -> bool:
        """Whether it can search this sentence."""

    def __call__(self, queue: SentenceQueue) -> Iterator[Iterable[SearchResult]]:
        """The result of each sentence of a queue, all of which it accepts, as soon as it is known."""


class PackedModel(Protocol):
    """A model in a file."""

    def search(
        self, options: BeamConfig | SampleConfig, vocab: Vocab, nbest: int, *, constrained: bool, listed: bool
    ) -> PackedSearch | None:
        """The search that options describe; None if functions cannot follow them, or the file is damaged.

        constrained: whether the task's constraint applies to every output. listed: whether outputs consist of the
        tokens of the model's shortlist, if it has one and no constraint applies.
        """


class PackedFormat(Protocol):
    """What functions of a plugin keep of a model; no torch is imported except by `keep`."""

    def identity(self) -> str:
        """What its files depend on beside their keys, such as the processor; empty: it cannot be used here."""

    def find(self, key: str) -> tuple[dict[str, Any], PackedModel] | None:
        """The record that `keep` was given with this key, and the model; None: there are none, or they are damaged."""

    def keep(self, key: str, request: SearchRequest, record: Mapping[str, Any]) -> bool:
        """Keep under a key the model of a request, its shortlist and its constraint, and a record in JSON.

        False if the model consists of more than functions, or there is no room.
        """
