"""Checkpoints that are written atomically and verified on load.

A checkpoint is a directory, such as `checkpoints/step-012000`:

    model.safetensors   weights                    optim.safetensors   the optimizer's tensors
    ema.safetensors     their moving average       state.json          everything but tensors
    MANIFEST.json       size and sha256 of each of them

It is written under a temporary name, each file synced, the manifest last, and renamed into place.
Loading verifies it against the manifest first. Nothing in it is ever unpickled.
"""

from __future__ import annotations

__all__ = [
    "Checkpoint",
    "Latest",
    "average_weights",
    "check_space",
    "clean_up",
    "evaluated_weights",
    "flatten_state",
    "latest",
    "load",
    "load_weights",
    "n_bytes",
    "prune",
    "read_link",
    "save",
    "size_limit",
    "snapshot",
    "step_name",
    "steps",
    "unflatten_state",
    "verify",
    "write_file",
    "write_link",
]

from s2s.checkpoint.directory import (
    Checkpoint,
    Latest,
    check_space,
    clean_up,
    latest,
    load,
    prune,
    save,
    step_name,
    steps,
)
from s2s.checkpoint.manifest import verify
from s2s.checkpoint.state_tree import flatten_state, unflatten_state
from s2s.checkpoint.tensors import n_bytes, snapshot
from s2s.checkpoint.weights import average_weights, evaluated_weights, load_weights, size_limit
from s2s.io.atomic import read_link, write_file, write_link
