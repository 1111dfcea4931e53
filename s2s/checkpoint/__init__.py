"""Checkpoints that are either whole or not there.

A checkpoint is a directory, such as `checkpoints/step-012000`:

    model.safetensors   weights                    optim.safetensors   the optimizer's tensors
    ema.safetensors     their moving average       state.json          everything that is not a tensor
    MANIFEST.json       size and sha256 of each of them

It is written under a temporary name, each file synced, the manifest last, and appears by one rename.
Whoever loads it checks it against the manifest first. Nothing in it is ever unpickled.
"""

from __future__ import annotations

__all__ = [
    "Checkpoint",
    "Newest",
    "follow",
    "judged",
    "load",
    "load_weights",
    "mean",
    "newest",
    "pack",
    "point",
    "preflight",
    "prune",
    "save",
    "size",
    "snapshot",
    "step_name",
    "steps",
    "sweep",
    "unpack",
    "verify",
    "write_file",
]

from s2s.checkpoint.folder import (
    Checkpoint,
    Newest,
    load,
    newest,
    preflight,
    prune,
    save,
    step_name,
    steps,
    sweep,
)
from s2s.checkpoint.manifest import verify
from s2s.checkpoint.tensors import size, snapshot
from s2s.checkpoint.trees import pack, unpack
from s2s.checkpoint.weights import judged, load_weights, mean
from s2s.durable import follow, point, write_file
