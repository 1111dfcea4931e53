"""Operations of training for architectures that cannot count them from lengths: counted while examples run."""

from __future__ import annotations

__all__ = ["counted_operations"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils.flop_counter import FlopCounterMode

from s2s import make_batch
from s2s.backend import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Example, Seq2Seq, Task

EXAMPLES = 32


def counted_operations(model: Seq2Seq, task: Task, examples: Sequence[Example]) -> float | None:
    """Forward and backward operations per target token: three times the products of `forward` and `project`.

    Each example is a batch of its own, so that no padding is counted. None without examples.
    """
    pairs = task.encode(examples[:EXAMPLES])
    n_tokens = sum(len(tgt) + 1 for _, tgt in pairs)
    if not pairs:
        return None
    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), references(), counter:
        for pair in pairs:
            batch = make_batch([pair], task.vocab)
            model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    return 3 * counter.get_total_flops() / n_tokens


@contextmanager
def references() -> Iterator[None]:
    """Use torch's implementation of all operators: the counter does not see products in C."""
    before, Operator.use_implementations = Operator.use_implementations, False
    try:
        yield
    finally:
        Operator.use_implementations = before
