"""Activation checkpointing (Chen et al., 2016): layers keep only their input, and backward computes the rest again."""

from __future__ import annotations

__all__ = ["checkpoint_activations"]

from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


def checkpoint_activations(model: nn.Module) -> None:
    """Checkpoint every element of each outermost ModuleList; dropout repeats its masks, so results stay the same."""
    for layers in _outermost(model):
        for layer in layers:
            layer.forward = partial(_checkpointed, layer, layer.forward)  # hooks run outside: FSDP gathers there


def _checkpointed(layer: nn.Module, forward: Any, *args: Any, **kwargs: Any) -> Any:
    if not layer.training:
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def _outermost(module: nn.Module) -> list[nn.ModuleList]:
    if isinstance(module, nn.ModuleList):
        return [module]
    return [module_list for child in module.children() for module_list in _outermost(child)]
