"""Replaces the functions that compute a model's linear maps. Shapes: I inputs, O outputs."""

from __future__ import annotations

__all__ = ["is_prepackable", "replace_linear_maps"]

from typing import TYPE_CHECKING

from torch import Tensor, nn

from s2s.backend import linear, release_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable


LARGE_TABLE_BYTES = 2**25
"""Bytes from which a table is freed and rows are looked up in the prepacked weight, where their values lie far apart"""


def is_prepackable(module: nn.Module) -> bool:
    """Whether it computes x W^T + b with a constant W; weight_norm, say, recomputes W in a hook before `forward`."""
    return isinstance(module, linear.HasPrepacked) or (type(module) is nn.Linear and not module._forward_pre_hooks)


def replace_linear_maps(model: nn.Module, prepack: Callable[[Tensor, Tensor | None], linear.LinearMap]) -> None:
    """Compute every linear map by `prepack(W, b)`, of W [O, I] and b [O], and free weights that nothing else reads."""
    read = {p for module in model.modules() if not _owns_weight(module) for p in module.parameters(recurse=False)}
    for module in [module for module in model.modules() if is_prepackable(module)]:
        if isinstance(module, linear.HasPrepacked):
            module.prepacked = prepack(*module.weight_and_bias())
            if _owns_weight(module) and module.weight not in read:
                setattr(module, "weight", None)  # noqa: B010  mypy refuses an assignment
            elif isinstance(module, linear.HasTable) and isinstance(module.prepacked, linear.HasWeightRows):
                weight, _ = module.weight_and_bias()
                if weight.numel() * weight.element_size() >= LARGE_TABLE_BYTES:
                    module.free_table()
        else:
            assert isinstance(module, nn.Linear)
            setattr(module, "forward", prepack(module.weight, module.bias))  # noqa: B010  mypy refuses an assignment
    release_freed_memory()


def _owns_weight(module: nn.Module) -> bool:
    """Whether only its product reads its weight, as in s2s.nn.linear; other modules may read that of an nn.Linear."""
    return isinstance(module, nn.Linear) and isinstance(module, linear.HasPrepacked)
