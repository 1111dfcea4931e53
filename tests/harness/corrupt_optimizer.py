"""Checkpoints whose optimizer state cannot be used for a step, with a manifest that matches it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

from s2s.checkpoint.manifest import write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor


def vouch_again(checkpoint: Path) -> None:
    """A manifest that says what is there now, of the files that it may name."""
    names = (p.name for p in checkpoint.iterdir() if p.suffix in (".safetensors", ".json"))
    write_manifest(checkpoint, sorted(name for name in names if name != "MANIFEST.json"))


def _replaced(change: Callable[[Tensor], Tensor], name: str = "exp_avg") -> Callable[[Path], str]:
    """The tensor of this name of the last parameter is another."""

    def replace(checkpoint: Path) -> str:
        file = checkpoint / "optim.safetensors"
        tensors = load_file(file)
        key = max((k for k in tensors if k.endswith(f".{name}")), key=lambda k: int(k.split(".")[1]))
        tensors[key] = change(tensors[key])
        save_file(tensors, file, metadata={"aliases": "{}"})
        return key

    return replace


def _lacks(checkpoint: Path) -> str:
    """The last parameter has no second moment, neither in the structure nor among the tensors."""
    state = json.loads((checkpoint / "state.json").read_text())
    ((_, of_parameters),) = [pair for pair in state["optim"]["dict"] if pair[0] == "state"]
    number, kept = of_parameters["dict"][-1]
    kept["dict"] = [pair for pair in kept["dict"] if pair[0] != "exp_avg_sq"]
    (checkpoint / "state.json").write_text(json.dumps(state))
    return f"state.{number}.exp_avg_sq"


def _gone(checkpoint: Path) -> str:
    """A tensor is gone of which the structure says that it is there."""
    file = checkpoint / "optim.safetensors"
    tensors = load_file(file)
    key = next(k for k in tensors if k.endswith(".exp_avg"))
    del tensors[key]
    save_file(tensors, file, metadata={"aliases": "{}"})
    return key


OPTIM_CHANGES: dict[str, Callable[[Path], Any]] = {
    "no second moment": _lacks,
    "a tensor gone": _gone,
    "cut": _replaced(lambda t: t.flatten()[:-1].clone()),
    "longer": _replaced(lambda t: torch.zeros(*t.shape[:-1], t.shape[-1] + 1)),
    "flat": _replaced(lambda t: t.flatten()[:, None].clone()),
    "whole numbers": _replaced(lambda t: torch.zeros_like(t, dtype=torch.int32)),
    "half": _replaced(lambda t: t.half()),
    "nan": _replaced(lambda t: torch.full_like(t, torch.nan), "exp_avg_sq"),
    "negative step": _replaced(lambda t: torch.full_like(t, -3), "step"),
    "step of nan": _replaced(lambda t: torch.full_like(t, torch.nan), "step"),
    "two steps": _replaced(lambda t: torch.ones(2), "step"),
}
"""What is done to a checkpoint; returns the name of the value that an error has to say"""
