"""An operator: a function in torch, and faster ones that plugins add for some devices and types.

`torch.library.custom_op` would dispatch as well, but takes 18 µs a call (this object: 1 µs), and a step of a small
model makes ten calls of about 10 µs each.
"""

from __future__ import annotations

__all__ = ["Operator", "description"]

import os
from functools import update_wrapper
from typing import TYPE_CHECKING, ClassVar, Generic, ParamSpec, TypeVar

import torch

from s2s.backend import providers
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


class Operator(Generic[P, R]):
    """A decorator; called like the torch function that it decorates, the reference for all implementations."""

    use_implementations: ClassVar[bool] = True
    """False: all operators call their references, for tests and measurements"""

    def __init__(self, reference: Callable[P, R]) -> None:
        self.reference = reference
        self.implementations: tuple[tuple[Callable[..., bool], Callable[P, R]], ...] = ()
        """The rule and the function of each, in the order in which rules are tried"""
        update_wrapper(self, reference)

    def implement(self, function: Callable[P, R], accepts: Callable[..., bool]) -> None:
        """Call `function` instead if `accepts` is true of the arguments and no earlier implementation's rule is.

        Its result must equal the reference's up to rounding. Implementing with the same function again moves it to the
        end.
        """
        others = (other for other in self.implementations if other[1] is not function)
        self.implementations = (*others, (accepts, function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self.use_implementations or torch.compiler.is_compiling():
            return self.reference(*args, **kwargs)
        if providers.pending:
            providers.load_implementations()
        for accepts, function in self.implementations:
            if accepts(*args, **kwargs):
                return function(*args, **kwargs)
        return self.reference(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Operator({self.__name__})"  # type: ignore[attr-defined]  # set by update_wrapper


def description() -> str:
    """Which implementations operators have, and why."""
    implementations = providers.load_implementations()
    requested = os.environ.get("S2S_KERNELS")
    if not implementations and requested in ("native", "compile"):
        raise ConfigError(f"S2S_KERNELS={requested}: no plugin has such kernels; S2S_BLOCK_PLUGINS may name it")
    return ", ".join(implementations) or "torch kernels (no plugin has others)"
