"""Linear maps whose weights are prepacked once for decoding: which modules can be, and how a model is.

Shapes: I inputs, O outputs.
"""

from __future__ import annotations

__all__ = [
    "HasPrepacked",
    "LinearBackend",
    "LinearMap",
    "deterministic_backend",
    "is_prepackable",
    "linear_function",
    "prepack",
    "replace_linear_maps",
]

from collections.abc import Callable
from typing import Literal, Protocol, cast, runtime_checkable

from torch import Tensor, nn

from s2s.backend.operators.operator import Operator
from s2s.errors import ConfigError

LinearMap = Callable[[Tensor], Tensor]
"""[..., I] -> [..., O]"""
LinearBackend = Literal["auto", "exact", "torch", "onednn", "native"]


@runtime_checkable
class HasPrepacked(Protocol):
    """A module that multiplies by a weight in its own way, and by `prepacked` instead where that is set."""

    prepacked: LinearMap | None

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, I], [O]"""


@Operator
def prepack(model: nn.Module, backend: LinearBackend, quantization: Literal["none", "bf16", "int8"]) -> str:
    """Prepack the weights of a model's linear maps for decoding; it can then be neither trained nor saved.

    These are modules of `s2s.nn.linear`, whose own weights are freed, and modules that are nn.Linear itself, which keep
    them. All others are left alone: a subclass of nn.Linear may do something else. Returns what was done, in words.
    """
    del model
    if quantization != "none":
        raise ConfigError(f"quantization={quantization}: no plugin has such linear maps for this; leave the option out")
    if backend not in ("auto", "exact", "torch"):
        raise ConfigError(f"matmul={backend}: no plugin has such linear maps for this; leave the option out")
    return f"linear maps by torch ({'matmul=torch' if backend == 'torch' else 'no plugin has others'})"


@Operator
def deterministic_backend(model: nn.Module) -> LinearBackend:
    """The preferred backend that is accurate here, without timing: another process must come to the same choice."""
    del model
    return "torch"


def linear_function(module: nn.Module) -> LinearMap:
    """What computes a linear map now."""
    return (isinstance(module, HasPrepacked) and module.prepacked) or cast("LinearMap", module.forward)


def is_prepackable(module: nn.Module) -> bool:
    """Whether it computes x W^T + b with a constant W, which weight_norm's hook before `forward` would make anew."""
    return isinstance(module, HasPrepacked) or (type(module) is nn.Linear and not module._forward_pre_hooks)


def replace_linear_maps(model: nn.Module, prepack: Callable[[Tensor, Tensor | None], LinearMap]) -> None:
    """Let what `prepack` makes of W [O, I] and b [O] compute every linear map; free weights that nothing else reads."""
    read = {p for module in model.modules() if not _owns_weight(module) for p in module.parameters(recurse=False)}
    for module in [module for module in model.modules() if is_prepackable(module)]:
        if isinstance(module, HasPrepacked):
            module.prepacked = prepack(*module.weight_and_bias())
            if _owns_weight(module) and module.weight not in read:
                module.weight = None  # type: ignore[assignment]
        else:
            assert isinstance(module, nn.Linear)
            setattr(module, "forward", prepack(module.weight, module.bias))  # noqa: B010  mypy refuses an assignment


def _owns_weight(module: nn.Module) -> bool:
    """Whether only the product reads its weight, as that of s2s.nn.linear; around an nn.Linear others may."""
    return isinstance(module, nn.Linear) and isinstance(module, HasPrepacked)
