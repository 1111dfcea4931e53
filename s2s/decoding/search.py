"""Beam search over any model, one step for all sentences of a batch at once.

Shapes: B sentences being searched, K live hypotheses per sentence, V target vocabulary, n candidates.

A sentence leaves the batch as soon as it is done, and one that waits takes its place. Nothing that is decided about
it looks at another: an output does not depend on the batch.
"""

from __future__ import annotations

__all__ = ["BeamSearch", "greedy"]

from typing import TYPE_CHECKING

import torch

from s2s.decoding import BeamConfig, Found, GreedyConfig
from s2s.decoding.groups import Diverse
from s2s.decoding.space import Space
from s2s.decoding.streaming import InBatches
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.decoding.queue import Queue
    from s2s.model import Seq2Seq
    from s2s.task import Constraint, Vocab


def greedy(config: GreedyConfig) -> BeamSearch:
    """A beam of one that stops when it ends: the most probable symbol at every step."""
    a, b, ban_unk = config.max_len_a, config.max_len_b, config.ban_unk
    return BeamSearch(BeamConfig(beam=1, alpha=0.0, stop="first_k", max_len_a=a, max_len_b=b, ban_unk=ban_unk))


class BeamSearch(InBatches):
    """The `Search` of section 6.1; see `BeamConfig`."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config

    @torch.no_grad()
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
        if not 1 <= nbest <= self.config.beam:
            beam = self.config.beam
            raise ConfigError(
                f"nbest={nbest} must lie between 1 and the beam, which is {beam}; "
                f"give search.beam={max(nbest, 1)}, after search=beam if the search is greedy"
            )
        kind = Diverse if self.config.groups > 1 else Space
        yield from kind(self.config, model, vocab, device, constraint, nbest).run(queue)
