"""How a global batch of pairs becomes the micro-batches of every rank."""

from __future__ import annotations

__all__ = ["MicroBatches", "n_positions_of", "n_tokens_of"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.backend.device_types import device_of
from s2s.backend.selection import BackendSelection
from s2s.batch import Batch, make_batch
from s2s.config import TrainConfig
from s2s.data.lazy_batch import pair_lengths, split
from s2s.data.packing import Capacity, pack
from s2s.distributed import World
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data.pairs import Pair


@dataclass(frozen=True)
class MicroBatches:
    """Divides a global batch, the same way on every rank."""

    config: TrainConfig
    vocab: Vocab
    world: World
    backend: BackendSelection
    factor: int = 1
    """Times as many as micro_tokens requires"""

    def split(self, batch: Sequence[Pair]) -> list[Sequence[Pair]]:
        """The micro-batches of all ranks, dealt out in turns."""
        return split(batch, self.count(batch))

    def local(self, batch: Sequence[Pair]) -> list[Sequence[Pair]]:
        """The micro-batches that this rank trains on."""
        return self.split(batch)[self.world.rank :: self.world.size]

    def count(self, batch: Sequence[Pair]) -> int:
        """Micro-batches of a global batch: as many as micro_tokens requires, and a multiple of the number of ranks."""
        if self.backend.static_shapes:
            return self.world.size * self._n_local(self.config.n_tokens)
        count = n_tokens_of if self.backend.packed.enabled else n_positions_of
        return self.world.size * self._n_local(max(count(batch)))

    def capacity(self, tokens: int) -> Capacity | None:
        """The static shape of packed batches of `tokens` tokens per side; None: shapes vary from batch to batch."""
        return Capacity(tokens, self.backend.max_len) if self.backend.static_shapes else None

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        """The pairs as a micro-batch on the device."""
        return self._tensors(pairs).to(self.world.device, pin=device_of(self.world.device).pins_memory)

    def _tensors(self, pairs: Sequence[Pair]) -> Batch:
        if not self.backend.packed.enabled:
            return make_batch(pairs, self.vocab)
        n_parts = self.world.size * self._n_local(self.config.n_tokens)
        capacity = self.capacity(math.ceil(self.config.n_tokens / n_parts))
        return pack(pairs, self.vocab, capacity and capacity.grown_for(pairs, len(self.vocab.starting_tokens)))

    def _n_local(self, n_positions: int) -> int:
        """Micro-batches of each rank for a global batch of `n_positions` positions per side."""
        limit = self.config.n_micro_tokens
        needed = 1 if limit is None else math.ceil(n_positions / limit)
        return self.factor * math.ceil(needed / self.world.size)


def n_tokens_of(batch: Sequence[Pair]) -> tuple[int, int]:
    """Source and target tokens of a batch, each sentence's eos counted."""
    src, tgt = pair_lengths(batch)
    return int(src.sum()), int(tgt.sum())


def n_positions_of(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Source and target positions of the pairs as a padded batch."""
    src, tgt = pair_lengths(pairs)
    return len(pairs) * int(src.max(initial=1)), len(pairs) * int(tgt.max(initial=1))
