"""Ends well if memory between two tensors that stay is kept when it is freed, and given back when it is released."""

from __future__ import annotations

import torch

from harness.resident_memory import address, n_bytes_in_memory
from s2s.backend.host import keep_freed_memory, release_freed_memory


def main() -> None:
    """A hundred tensors of a megabyte are freed; their neighbours stay."""
    keep_freed_memory()
    tensors = [torch.ones(1 << 18) for _ in range(200)]
    ranges = [address(x) for x in tensors[::2]]
    del tensors[::2]
    assert sum(n_bytes_in_memory(*r) for r in ranges) > 90 << 20
    release_freed_memory()
    assert sum(n_bytes_in_memory(*r) for r in ranges) < 10 << 20


if __name__ == "__main__":
    main()
