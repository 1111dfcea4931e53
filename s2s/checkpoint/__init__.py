"""Checkpoints that are written atomically and verified on load.

A checkpoint is a directory, such as `checkpoints/step-012000`:

    model.safetensors   weights                    optim.safetensors   the optimizer's tensors
    ema.safetensors     their moving average       state.json          everything but tensors
    MANIFEST.json       size and sha256 of each of them

It is written under a temporary name, each file synced, the manifest last, and renamed into place.
Loading verifies it against the manifest first. Nothing in it is ever unpickled.
"""

from __future__ import annotations

__all__ = ["latest", "step_name", "steps"]

from typing import TYPE_CHECKING

from s2s.checkpoint.names import step_name, steps
from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.checkpoint.directory import latest

__getattr__ = lazy_names(__name__, "directory")
