"""Training: from a configuration to the last checkpoint. `trainer` is the loop; the other modules are its parts."""

from __future__ import annotations

__all__ = ["Trainer"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.training.trainer import Trainer

__getattr__ = lazy_names(__name__, "trainer")
