"""An operator: one operation with two implementations, in torch and in C, and the rule that picks one at each call.

`torch.library.custom_op` would dispatch as well, but takes 18 µs a call (this object: 1 µs), and a step of a small
model makes ten calls of about 10 µs each.
"""

from __future__ import annotations

__all__ = ["Operator", "references_only"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

import torch

from s2s.backend.kernels.library import native_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


P = ParamSpec("P")
R = TypeVar("R")


class Operator(Generic[P, R]):
    """Called like a function: the one in C where it is compiled and takes the arguments, else the reference.

    The function in C takes arguments of which those numbered `fp32` are fp32 tensors on a CPU, if `accepts` is true of
    all (or not given).
    """

    use_native: ClassVar[bool] = True
    """Of all operators; see `references_only`"""

    def __init__(
        self,
        name: str,
        *,
        reference: Callable[P, R],
        native: Callable[P, R],
        fp32: Sequence[int] = (),
        accepts: Callable[..., bool] | None = None,
    ) -> None:
        self.name, self.reference, self.native = name, reference, native
        self.fp32, self.accepts = tuple(fp32), accepts
        self.__doc__ = reference.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self.use_native or torch.compiler.is_compiling() or native_library().functions is None:
            return self.reference(*args, **kwargs)
        for i in self.fp32:
            x: Any = args[i]
            if x.dtype is not torch.float32 or not x.is_cpu:
                return self.reference(*args, **kwargs)
        if self.accepts is not None and not self.accepts(*args, **kwargs):
            return self.reference(*args, **kwargs)
        return self.native(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Operator({self.name})"


@contextmanager
def references_only() -> Iterator[None]:
    """Inside the block, operators call their references in torch: for tests and measurements."""
    before, Operator.use_native = Operator.use_native, False
    try:
        yield
    finally:
        Operator.use_native = before
