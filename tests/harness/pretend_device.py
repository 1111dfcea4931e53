"""A device in Python for torch's CPU wheel, which finds errors that otherwise only an accelerator shows.

Its tensors hold CPU tensors and compute on them. An operator that mixes devices is refused, float64 too if `float64` is
False, and every read by the host is counted with the place that reads. Values are real. Streams are not simulated.
"""

from __future__ import annotations

__all__ = ["NAME", "PretendTensor", "State", "register"]

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "pretend"
COPIES = ("aten::_to_copy", "aten::copy_")
READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::_unique2")
"""Operators whose result, or its shape, the host must know"""
INDEXING = ("aten::index", "aten::index_put_", "aten::_index_put_impl_")
"""Operators that accept indices of the host, and read a mask of the device"""


class State:
    """What the process has counted, and what it may compute in."""

    reads: ClassVar[Counter[tuple[str, str]]] = Counter()
    """(modules of s2s that are being executed, the innermost one with its function) -> reads"""
    float64: ClassVar[bool] = True


class PretendTensor(Tensor):
    """A tensor of this device; `data_on_host` shares the memory of its views' data."""

    data_on_host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: type[PretendTensor], host: Tensor) -> PretendTensor:
        if host.dtype == torch.float64 and not State.float64:
            raise TypeError(f"{NAME} has no float64")
        wrapper: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]  # torch's stubs lack it
            cls,
            host.shape,
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device(NAME, 0),
        )
        wrapper.data_on_host = host
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"{NAME}:{self.data_on_host}"

    def data_ptr(self) -> int:
        return self.data_on_host.data_ptr()

    def tolist(self) -> Any:
        count_read()
        return self.data_on_host.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"a tensor on {NAME} has no numpy array; use cpu() first")


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """An operator on the data of its arguments."""
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    here = {id(x.data_on_host): x for x in tensors if isinstance(x, PretendTensor)}
    hosts = {id(x): x for x in tensors if not isinstance(x, PretendTensor)}
    name = func._schema.name
    if here and name not in (*COPIES, *INDEXING) and any(x.dim() for x in hosts.values()):
        shapes = [(type(x).__name__, tuple(x.shape)) for x in tensors]
        raise RuntimeError(f"{name}: tensors are on {NAME} and on cpu: {shapes}")
    target = kwargs.get("device")
    is_result_here = bool(here) if target is None else torch.device(target).type == NAME
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    reads_mask = name in INDEXING and any(x is not None and x.dtype == torch.bool for x in args[1])
    is_copied_to_host = name in COPIES and here and (id(args[0]) in hosts if name == COPIES[1] else not is_result_here)
    if (name in READS and here) or reads_mask or is_copied_to_host:
        count_read()
    args, kwargs = pytree.tree_map(lambda x: x.data_on_host if isinstance(x, PretendTensor) else x, (args, kwargs))

    def wrapped(x: Any) -> Any:
        if not isinstance(x, Tensor) or id(x) in hosts or not is_result_here:
            return x
        return here[id(x)] if id(x) in here else PretendTensor(x)

    return pytree.tree_map(wrapped, func(*args, **kwargs))


def count_read() -> None:
    """Count a read where it happens."""
    frame, modules, place = sys._getframe(1), list[str](), ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0].startswith("s2s"):
            modules.append(module)
            place = place or f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    State.reads[" ".join(dict.fromkeys(modules)), place] += 1


class Module:
    """What torch asks of torch.pretend."""

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: object = 0) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: object = 0) -> None:
        torch.set_rng_state(state)

    def manual_seed_all(self, seed: int) -> None:
        """The host's generator is used, which torch has seeded."""

    def _is_in_bad_fork(self) -> bool:
        return False


def arange(*limits: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """torch's own would resize an empty tensor, which a wrapper cannot be."""
    return PretendTensor(torch.arange(*limits, dtype=dtype))


def tensor_maker(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch.tensor: torch's own asks for a kernel in C++ of this device."""

    def tensor(*args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        return make(*args, **kwargs) if device is None else make(*args, **kwargs).to(device)

    return tensor


_libraries: list[torch.library.Library] = []
"""Kept, since a library takes its kernels with it"""


def register() -> None:
    """Add the device to torch, once in a process."""
    if _libraries:
        return
    _setup_privateuseone_for_python_backend(NAME, backend_module=Module())
    torch.__future__.set_swap_module_params_on_conversion(True)
    anything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    anything.fallback(lambda func, *args, **kwargs: compute(func, args, kwargs), "PrivateUse1")
    for name in ("arange", "arange.start", "arange.start_step"):
        aten.impl(name, arange, "PrivateUse1")
    torch.tensor = tensor_maker(torch.tensor)
    _libraries.extend([anything, aten])
