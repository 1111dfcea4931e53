"""train.tokens=auto and train.micro_tokens=auto: as many tokens at once as fit into memory, measured by trials."""

from __future__ import annotations

__all__ = ["s2s_fit_batch"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.config import Config
    from s2s.data import MappedCorpus
    from s2s.training import BatchPlan, TrainStep


@hookimpl
def s2s_fit_batch(config: Config, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path) -> BatchPlan:
    """Numbers for both, and a check that rejects micro-batches that no longer fit into memory."""
    from s2s.training import BatchPlan
    from s2s_batch_size.batch_size import find_batch_size
    from s2s_batch_size.memory_guard import MemoryGuard
    from s2s_batch_size.memory_trials import longest_pair
    from s2s_batch_size.micro_batch import find_micro_tokens

    guard = MemoryGuard()
    tokens, of_batch = find_batch_size(train_step, guard, config.data.max_len, directory)
    config = replace(config, train=replace(config.train, tokens=tokens))
    micro_tokens, of_part = find_micro_tokens(config, train_step, guard, longest_pair(corpora), directory)
    return BatchPlan(tokens, micro_tokens, guard.check, [line for line in (of_batch, of_part) if line])
