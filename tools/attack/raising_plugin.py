"""Raises an exception in one rank after an update: RAISE="rank step kind"."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from s2s.errors import DataError
from s2s.plugin import Observer, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = [
    DataError("a.en: damaged while it was read"),
    OSError(28, "No space left on device", "a.file"),
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    KeyboardInterrupt(),
]


class Raising(Observer):
    """Raises it."""

    def update(self, record: Mapping[str, Any]) -> None:
        rank, step, kind = os.environ.get("RAISE", "-1 0 0").split()
        if (rank, int(step)) == (os.environ.get("RANK"), record["step"]):
            raise KINDS[int(kind)]


@hookimpl
def s2s_observe() -> Raising:
    return Raising()
