"""Rejects a micro-batch that does not fit into memory, before the system kills the process.

On a GPU, allocating too much is an error. On a CPU, the system grants more memory than it has, and kills the process
when it is written to; so the estimate for a micro-batch larger than any before is compared with the memory left by the
system, its containers and limits.
"""

from __future__ import annotations

__all__ = ["MemoryGuard", "NotEnoughMemoryError"]

from dataclasses import dataclass

from s2s.backend import available_memory


class NotEnoughMemoryError(MemoryError):
    """A micro-batch would take more memory than there is."""


@dataclass
class MemoryGuard:
    """The measured memory of micro-batches."""

    bytes_per_token: float = 0.0
    """Bytes per token per side; 0: unknown, and nothing is rejected"""
    largest: int = 0
    """Tokens per side of the largest micro-batch so far, whose memory the process keeps"""

    def check(self, n_tokens: int) -> None:
        """Raises NotEnoughMemoryError if a micro-batch of `n_tokens` tokens per side does not fit."""
        if self.bytes_per_token and n_tokens > self.largest:
            need, left = self.bytes_per_token * (n_tokens - self.largest), available_memory()
            if need > left.n_bytes:
                raise NotEnoughMemoryError(
                    f"can't allocate memory: {n_tokens:,} tokens a side would take {need / 2**30:.1f} GiB more, and "
                    f"{left.limit} has {left.n_bytes / 2**30:.1f} GiB left"
                )
        self.largest = max(self.largest, n_tokens)
