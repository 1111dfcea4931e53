"""Prepacked linear maps in C: bound by memory for few rows, by arithmetic for many, on one thread.

A row's result has the same bits whatever the other rows are, and however many. Shapes: R rows, I inputs, O outputs,
C outputs of a panel.
"""

from __future__ import annotations

__all__ = [
    "Bf16Linear",
    "Fp32Linear",
    "HugePageArena",
    "Int8Linear",
    "PrepackedLinear",
    "as_prepacked",
    "has_int8_linear",
    "has_linear",
    "rounds_rows_to_bf16",
]

import copy
import ctypes
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend import release_freed_memory
from s2s_cpu.library import call, constant, native_library
from s2s_cpu.quantization import ZERO_POINT, quantize_weight
from s2s_cpu.structs import LinearStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.backend import linear

HUGE_PAGE = 2**21


class HugePageArena:
    """Memory in huge pages, for weights that are read from end to end at every step.

    (Products of 4 rows with weights larger than any cache are 1.2 times as fast.)
    """

    def __init__(self, chunk: int = 4 * HUGE_PAGE) -> None:
        self.chunk, self.free = chunk, torch.empty(0, dtype=torch.uint8)

    def copy(self, x: Tensor) -> Tensor:
        """A copy of x in this memory."""
        n_bytes = x.numel() * x.element_size()
        if n_bytes > len(self.free):
            release_freed_memory()  # that of the weights copied before
            memory = torch.empty(max(n_bytes, self.chunk) + HUGE_PAGE, dtype=torch.uint8)
            self.free = memory[-memory.data_ptr() % HUGE_PAGE :]
            call("s2s_huge_pages", self.free, len(self.free) // 4096 * 4096)
        block, self.free = self.free[:n_bytes], self.free[(n_bytes + 63) // 64 * 64 :]
        return block.view(x.dtype).view(x.shape).copy_(x)


class PrepackedLinear:
    """x W^T + b."""

    bits: ClassVar[int]
    """Bits of a weight"""

    def __init__(self, shape: Sequence[int], bias: Tensor | None, multiplier: float = 0.0, **tensors: Tensor) -> None:
        """shape: that of W [O, I]; bias [O]; tensors: the others that the `LinearStruct` points to."""
        self.n_outputs, self.n_inputs = shape
        bias = torch.zeros(self.n_outputs, dtype=torch.float32) if bias is None else bias.detach()
        self._point_to({"bias": _padded(bias).contiguous(), **tensors}, multiplier)

    def _point_to(self, tensors: dict[str, Tensor], multiplier: float) -> None:
        self.tensors = tensors
        pointers = {name: tensor.data_ptr() for name, tensor in self.tensors.items()}
        self.struct = LinearStruct(**pointers, n_inputs=self.n_inputs, n_outputs=self.n_outputs, bits=self.bits)
        self.struct.multiplier = multiplier

    def select(self, ids: Tensor) -> Self:
        """The same map with the outputs ids [U] alone. Raises IndexError for others than it has."""
        self._check_outputs(ids)
        selected, width, ids = copy.copy(self), panel_width(), ids.contiguous()
        n_panels = -(-len(ids) // width)
        sizes = {name: n_panels * (1 if name == "weight" else width) for name in self.tensors}
        selected.n_outputs = len(ids)
        tensors = {name: x.new_empty(sizes[name], *x.shape[1:]) for name, x in self.tensors.items()}
        selected._point_to(tensors, self.struct.multiplier)
        structs = map(ctypes.byref, (self.struct, selected.struct))
        call("s2s_select_outputs", next(structs), ids, len(ids), next(structs))
        return selected

    def _check_outputs(self, ids: Tensor) -> None:
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.n_outputs:  # the last panel is padded
            raise IndexError(f"rows {int(ids.min())} to {int(ids.max())} of {self.n_outputs}")

    def __call__(self, x: Tensor) -> Tensor:
        """x [..., I] in fp32 -> [..., O]. Raises ValueError for rows of another width or type."""
        if x.size(-1) != self.n_inputs or x.dtype != torch.float32:
            raise ValueError(f"expected rows of {self.n_inputs} values in fp32, Got {x.size(-1)} in {x.dtype}")
        x = x.contiguous()
        out = x.new_empty(*x.shape[:-1], self.n_outputs)
        call("s2s_linear", ctypes.byref(self.struct), x, x.numel() // self.n_inputs, out)
        return out


def as_prepacked(linear: object) -> PrepackedLinear:
    """A map that is one, as what accepts it has found."""
    assert isinstance(linear, PrepackedLinear)
    return linear


class Fp32Linear(PrepackedLinear):
    """x W^T + b in fp32."""

    bits = 32

    def __init__(self, weight: Tensor, bias: Tensor | None, arena: HugePageArena | None = None) -> None:
        """arena: None for a weight that changes soon"""
        super().__init__(weight.shape, bias, weight=_laid_out(_panels(weight.detach()), arena))

    def weight_rows(self, ids: Tensor) -> Tensor:
        """[...] -> [..., I], rows of W"""
        panels, width = self.tensors["weight"], panel_width()
        self._check_outputs(ids)
        return panels[ids // width, :, ids % width]


class Bf16Linear(PrepackedLinear):
    """W rounded to bf16, in half the memory; sums in fp32.

    Where the processor multiplies values in bf16, rows of x are rounded, too (`rounds_rows_to_bf16`); elsewhere results
    have the same bits as those of `Fp32Linear` with the rounded W.
    """

    bits = 16

    def __init__(self, weight: Tensor, bias: Tensor | None, arena: HugePageArena | None = None) -> None:
        """arena: None for a weight that changes soon"""
        panels = _unit_panels(weight.detach().bfloat16())
        super().__init__(weight.shape, bias, weight=_laid_out(panels, arena))


class Int8Linear(PrepackedLinear):
    """x W^T + b in 8-bit integers: one scale for each output of W and one for each row of x, or those of a file."""

    bits = 8

    def __init__(
        self, weight: Tensor, bias: Tensor | None, arena: HugePageArena, recorded: linear.Int8Multipliers | None = None
    ) -> None:
        quantized, scale, multiplier = quantize_weight(weight.detach(), recorded)
        zero = _padded(quantized.sum(1, dtype=torch.int32)) * ZERO_POINT
        tensors = {"weight": arena.copy(_unit_panels(quantized)), "scale": _padded(scale), "zero": zero}
        super().__init__(weight.shape, bias, multiplier, **tensors)


def has_linear() -> bool:
    """Whether linear maps in C can be used: torch must have one thread, since they run on one."""
    return native_library().functions is not None and torch.get_num_threads() == 1


def has_int8_linear() -> bool:
    """Whether those of 8-bit integers can be used, which need AVX2 or AVX-512."""
    return has_linear() and bool(constant("s2s_has_int8"))


def rounds_rows_to_bf16() -> bool:
    """Whether `Bf16Linear` rounds the rows of x, too, which takes AVX512-BF16."""
    return has_linear() and bool(constant("s2s_rounds_rows_to_bf16"))


def panel_width() -> int:
    """C, the outputs of a panel."""
    return constant("s2s_panel_width")


def _laid_out(panels: Tensor, arena: HugePageArena | None) -> Tensor:
    """Panels in the order in which they are read."""
    return arena.copy(panels) if arena else panels.contiguous()


def _panels(weight: Tensor) -> Tensor:
    """W [O, I] -> [O / C, I, C]"""
    return _padded(weight).unflatten(0, (-1, panel_width())).transpose(1, 2)


def _unit_panels(weight: Tensor) -> Tensor:
    """W [O, I] -> [O / C, I / n, C, n], n weights in four bytes; I is padded to whole lines of 64 bytes"""
    n = 4 // weight.element_size()
    missing = -weight.size(1) % (16 * n)
    units = (F.pad(weight, (0, missing)) if missing else weight.contiguous()).view(torch.int32)
    return _panels(units).contiguous().view(weight.dtype).unflatten(2, (-1, n))


def _padded(x: Tensor) -> Tensor:
    """x [O, ...] padded with zeros to whole panels; x itself if they are whole."""
    missing = -len(x) % panel_width()
    return F.pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x
