"""A device in Python for torch's CPU wheel, which finds errors that otherwise only an accelerator shows.

Its tensors hold CPU tensors and compute on them. An operator that mixes devices is refused, float64 too if `float64` is
False, and every read by the host is counted with the place that reads. Values are real. Streams are not simulated.
"""

from __future__ import annotations

__all__ = ["NAME", "Graph", "PretendTensor", "State", "register"]

import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "pretend"
COPIES = ("aten::_to_copy", "aten::copy_")
READS = (
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::_unique2"),
    *("aten::unique_consecutive", "aten::bincount", "aten::histc"),
)
"""Operators whose result, or its shape, the host must know"""
INDEXING = ("aten::index", "aten::index_put_", "aten::_index_put_impl_")
"""Operators that accept indices of the host, and read a mask of the device"""
PACKING = "aten::_pack_padded_sequence"
"""Takes lengths of the host, and returns those of its batches there"""
SHAPES = ("aten::view_as", "aten::expand_as", "aten::reshape_as", "aten::lstm", "aten::_pad_packed_sequence", PACKING)
"""Operators that use nothing of their second argument but its shape, or that take it on the host"""
LOW_PRECISION = (
    *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d", "einsum", "lstm_cell", "gru_cell"),
    "scaled_dot_product_attention",
)
FULL_PRECISION = (
    *("softmax.int", "log_softmax.int", "layer_norm", "rms_norm", "nll_loss", "cumsum", "prod", "exp", "log"),
    *(
        "logsumexp",
        "pow.Tensor_Scalar",
        "sum",
        "sum.dim_IntList",
        "reciprocal",
        "rsqrt",
        "norm.Scalar",
        "binary_cross_entropy_with_logits",
    ),
)
"""What autocast computes in the lower precision, and what in fp32, as on CUDA"""


LEAVES = {int, bool, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
"""Types of most arguments, which hold no tensors"""


class State:
    """What the process has counted, and what it may compute in."""

    reads: ClassVar[Counter[tuple[str, str]]] = Counter()
    """(modules of s2s that are being executed, the innermost one with its function) -> reads"""
    float64: ClassVar[bool] = True
    graphs: ClassVar[bool] = False
    """Whether the device has them"""
    recording: ClassVar[Graph | None] = None
    n_replays: ClassVar[int] = 0


class Graph:
    """The operators of a function, which can be run again on the memory that they used."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], Any, Any, list[Tensor], str]] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is computed in the block; a read, and a copy from the host, raises RuntimeError."""
        assert State.recording is None
        State.recording = self
        try:
            yield
        finally:
            State.recording = None

    def add(self, function: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """A call on data, and what it returned."""
        self.calls.append((function, args, kwargs, tensors_of(result), here_in_code()))

    @torch.inference_mode()
    def replay(self) -> None:
        """Write to every result what the operator gives now; views of other tensors, and those, are up to date."""
        State.n_replays += 1
        for function, args, kwargs, results, place in self.calls:
            for old, new in zip(results, tensors_of(function(*args, **kwargs)), strict=True):
                if old.untyped_storage().data_ptr() == new.untyped_storage().data_ptr():
                    continue
                if (old.shape, old.stride()) != (new.shape, new.stride()):
                    what = "another shape, or order in memory, than when it was recorded"
                    raise RuntimeError(f"{place}: a result of {function} has {what}")
                old.copy_(new)


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

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        return torch.tensor(data, dtype=dtype or self.dtype, device=device or self.device, **kwargs)

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"a tensor on {NAME} has no numpy array; use cpu() first")


def here_in_code() -> str:
    """The file and line of s2s or a plugin that computes now."""
    frame = sys._getframe(1)
    while frame.f_back and not frame.f_globals.get("__name__", "").startswith("s2s"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def tensors_of(tree: Any) -> list[Tensor]:
    """All tensors in it."""
    tensors: list[Tensor] = []
    replaced(tree, lambda x: tensors.append(x) or x)
    return tensors


def replaced(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The arguments or results of an operator with other tensors; in a tenth of the time that torch's pytree takes."""
    if type(tree) in LEAVES:
        return tree
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, (list, tuple)):  # a union would be made at each call
        return type(tree)([replaced(x, change) for x in tree])
    if isinstance(tree, dict):
        return {key: replaced(x, change) for key, x in tree.items()}
    return tree


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """An operator on the data of its arguments."""
    tensors = tensors_of((args, kwargs))
    here = {id(x.data_on_host): x for x in tensors if isinstance(x, PretendTensor)}
    hosts = {id(x): x for x in tensors if not isinstance(x, PretendTensor)}
    name = func._schema.name
    if here and name not in (*COPIES, *INDEXING, *SHAPES) and any(x.dim() for x in hosts.values()):
        shapes = [(type(x).__name__, tuple(x.shape)) for x in tensors]
        raise RuntimeError(f"{name}: tensors are on {NAME} and on cpu: {shapes}")
    target = kwargs.get("device")
    is_result_here = bool(here) if target is None else torch.device(target).type == NAME
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    reads_mask = name in INDEXING and any(isinstance(x, PretendTensor) and x.dtype == torch.bool for x in args[1])
    is_copied_to_host = name in COPIES and here and (id(args[0]) in hosts if name == COPIES[1] else not is_result_here)
    if (name in READS and here) or reads_mask or is_copied_to_host:
        count_read()
    if State.recording and is_result_here and name in (*COPIES, *INDEXING) and hosts:
        raise RuntimeError(f"{here_in_code()}: {name} in a captured function copies a tensor of the host to {NAME}")
    args, kwargs = replaced((args, kwargs), lambda x: x.data_on_host if isinstance(x, PretendTensor) else x)

    # torch tracks the versions of a tensor's views, which those made in inference mode do not have
    is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
    is_tracked = is_view and not all(x.is_inference() for x in here.values())

    def wrapped(x: Tensor) -> Tensor:
        if id(x) in hosts or (name == PACKING and x.dtype == torch.long) or not is_result_here:
            return x
        if id(x) in here:
            return here[id(x)]
        with torch.inference_mode(torch.is_inference_mode_enabled() and not is_tracked):
            return PretendTensor(x)

    function = WITHOUT_CPU_KERNEL.get(name, func)
    result = function(*args, **kwargs)
    if State.recording:
        State.recording.add(function, args, kwargs, result)
    return replaced(result, wrapped)


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden state, cell state, and the activated gates."""
    gates = sum((bias for bias in biases if bias is not None), input_gates + hidden_gates)
    i, f, g, o = gates.chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], dim=1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the gates, of the cell state before, and of the biases."""
    i, f, g, o = gates.chunk(4, dim=1)
    grad_h = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = (torch.zeros_like(cy) if grad_cy is None else grad_cy) + grad_h * o * (1 - cy.tanh() ** 2)
    parts = [
        grad_c * g * i * (1 - i),
        grad_c * cx * f * (1 - f),
        grad_c * i * (1 - g**2),
        grad_h * cy.tanh() * o * (1 - o),
    ]
    grad_gates = torch.cat(parts, dim=1)
    return grad_gates, grad_c * f, grad_gates.sum(0)


WITHOUT_CPU_KERNEL: dict[str, Callable[..., Any]] = {
    "aten::_thnn_fused_lstm_cell": lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
}


def autocast(operator: Any, dtype: torch.dtype | None) -> Callable[..., Any]:
    """A kernel that casts floating-point arguments of this device; dtype: None: that of autocast."""

    def cast(x: Tensor) -> Tensor:
        is_cast = isinstance(x, PretendTensor) and x.is_floating_point() and x.dtype != torch.float64
        return x.to(dtype or torch.get_autocast_dtype(NAME)) if is_cast else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operator(*replaced(args, cast), **replaced(kwargs, cast))

    return kernel


def moves(apply: Callable[..., torch.nn.Module]) -> Callable[..., torch.nn.Module]:
    """torch.nn.Module._apply: a parameter that moves to this device becomes a tensor of another class."""

    def _apply(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        earlier = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(module, *args, **kwargs)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(earlier)

    return _apply


def count_read() -> None:
    """Count a read where it happens; raises RuntimeError in a captured function."""
    if State.recording:
        raise RuntimeError(f"{here_in_code()}: a captured function reads from {NAME}")
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
    numbers = torch.arange(*limits, dtype=dtype)
    if State.recording:
        State.recording.add(lambda: torch.arange(*limits, dtype=dtype), (), {}, numbers)
    return PretendTensor(numbers)


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
    torch.nn.Module._apply = moves(torch.nn.Module._apply)  # type: ignore[method-assign]
    anything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    anything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for names, dtype in ((LOW_PRECISION, None), (FULL_PRECISION, torch.float32)):
        for name in names:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            aten.impl(name, autocast(operator, dtype), "AutocastPrivateUse1")
    anything.fallback(lambda func, *args, **kwargs: compute(func, args, kwargs), "PrivateUse1")
    for name in ("arange", "arange.start", "arange.start_step"):
        aten.impl(name, arange, "PrivateUse1")
    torch.tensor = tensor_maker(torch.tensor)
    _libraries.extend([anything, aten])
