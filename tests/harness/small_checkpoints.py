"""Small checkpoints to save, damage and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from s2s.checkpoint import directory as checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

FILES = ["MANIFEST.json", "model.safetensors", "optim.safetensors", "state.json"]
N_BYTES = "16,032"
"""What the tensors of `save` take"""


def tensors(seed: int = 0) -> dict[str, dict[str, Tensor]]:
    """A model with tied weights, and an optimizer's state."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(40, 50, generator=generator)
    return {
        "model": {"weight": weight, "tied": weight, "bias": torch.randn(7, generator=generator)},
        "optim": {"0.exp_avg": torch.randn(40, 50, generator=generator), "0.step": torch.tensor(3.0)},
    }


def save(folder: Path, step: int) -> Path:
    """The checkpoint of `step`."""
    return checkpoint.save(folder, checkpoint.step_name(step), tensors(step), {"step": step})


def names(folder: Path) -> list[str]:
    """What lies in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Equal names, types, shapes and bytes."""
    assert a.keys() == b.keys()
    for name in a:
        assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape)
        assert a[name].numpy(force=True).tobytes() == b[name].numpy(force=True).tobytes()
