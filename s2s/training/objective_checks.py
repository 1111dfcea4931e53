"""What an objective returned, and whether all that it learns is trained."""

from __future__ import annotations

__all__ = ["check_module", "check_trained", "checked_sums"]

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from s2s.errors import PluginError
from s2s.objective import Objective, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def check_module(objective: Objective) -> None:
    """Raise PluginError for a module that is called otherwise than modules are, and so cannot be sharded."""
    name = type(objective).__name__
    if type(objective).__call__ is not nn.Module.__call__:
        raise PluginError(f"{name}: write class {name}(nn.Module, Objective), and forward(model, batch), not __call__")


def checked_sums(sums: Any) -> Sums:
    """The sums; raises PluginError unless their loss is one number with a gradient."""
    if not isinstance(sums, Sums):
        raise PluginError(f"the objective returned {type(sums).__name__}: expected an s2s.Sums")
    loss: Any = sums.loss
    if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
        found = f"{list(loss.shape)}, requires_grad={loss.requires_grad}" if isinstance(loss, Tensor) else repr(loss)
        raise PluginError(f"the objective returned as loss {found}: expected a tensor [], a sum, with a gradient")
    return sums


def check_trained(objective: Objective, trained: Iterable[nn.Parameter]) -> None:
    """Raise PluginError if a parameter in the objective got a gradient and is not `trained`: no checkpoint has it."""
    others = set(_parameters_in(objective)) - set(trained)
    if any(p.grad is not None for p in others):
        raise PluginError(
            f"{type(objective).__name__} has parameters of its own that would not be trained: derive it from "
            "nn.Module, as in class PPO(nn.Module, Objective), or freeze them with requires_grad_(False)"
        )


def _parameters_in(tree: Any) -> Iterator[nn.Parameter]:
    """The parameters of an objective: in its attributes, and in modules, collections and objectives among them."""
    if isinstance(tree, nn.Parameter):
        yield tree
        return
    if isinstance(tree, nn.Module):
        yield from tree.parameters()
    if isinstance(tree, dict | list | tuple | Objective):  # an objective may be a module, with plain lists of modules
        inner = vars(tree) if isinstance(tree, Objective) else tree
        for value in inner.values() if isinstance(inner, dict) else inner:
            yield from _parameters_in(value)
