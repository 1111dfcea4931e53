"""Under a limit on a process's addresses (`ulimit -v`), torch's libraries end the process without an exception: their
import is refused before. Commands that do without torch have no such limit."""

from __future__ import annotations

__all__ = ["ADDRESSES", "MORE_MEMORY", "enough_for_torch"]

import resource
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESSES = 700 << 20
"""Bytes of addresses below which torch cannot be imported"""
MORE_MEMORY = "allow more (ulimit -v)"


@contextmanager
def enough_for_torch() -> Iterator[None]:
    """Inside the block, importing torch raises an error if this process may not have the addresses that it needs.

    It is a MemoryError, and an ImportError.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed == resource.RLIM_INFINITY or allowed >= ADDRESSES:
        yield
        return
    finder: Any = _NoTorch(allowed)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NoTorch:
    """Asked before the finders of Python where a module is."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torch":
            needs = f"this process may have {self.allowed >> 20:,} MB of addresses"
            raise _TooFewAddressesError(f"{needs}, and torch alone needs {ADDRESSES >> 20:,}; {MORE_MEMORY}", name=name)


class _TooFewAddressesError(ImportError, MemoryError):
    """Too few addresses for torch; also an ImportError, for code that does without torch where there is none."""
