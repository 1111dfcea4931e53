"""How long an output may be."""

from __future__ import annotations

__all__ = ["max_output_length"]

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from s2s.model import Seq2Seq


class LengthLimits(Protocol):
    """A search's config that limits outputs by the lengths of their sources."""

    max_len_a: float
    max_len_b: int


def max_output_length(config: LengthLimits, model: Seq2Seq, n_source: int) -> int:
    """Most tokens of an output, from the length of its own source; both without eos."""
    limit = max(1, int(config.max_len_a * n_source) + config.max_len_b)
    return min(limit, model.max_len - 1) if model.max_len else limit  # which counts eos
