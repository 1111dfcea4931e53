"""Linear maps by the functions in C: few rows as fast as memory is, many as fast as arithmetic is, on one thread.

A row's result has the same bits whatever the other rows are, and however many. Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = ["Bytes", "Floats", "Map", "Product", "Room", "has_int8_linear", "has_linear"]

import ctypes
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.kernels.library import call, library, number

LARGE_PAGE = 2**21


class Map(ctypes.Structure):
    """What products.c knows of a linear map."""

    _fields_ = (
        *((name, c_void_p) for name in ("weight", "bias", "scale", "zero")),
        ("n_inputs", c_int64),
        ("n_outputs", c_int64),
    )


class Room:
    """Memory in large pages, for what is read from end to end at every step.

    (Products of 4 rows with weights that no cache holds: 1.2 times as fast.)
    """

    def __init__(self, chunk: int = 4 * LARGE_PAGE) -> None:
        self.chunk, self.left = chunk, torch.empty(0, dtype=torch.uint8)

    def keep(self, x: Tensor) -> Tensor:
        """A copy of x in here."""
        n_bytes = x.numel() * x.element_size()
        if n_bytes > len(self.left):
            memory = torch.empty(max(n_bytes, self.chunk) + LARGE_PAGE, dtype=torch.uint8)
            self.left = memory[-memory.data_ptr() % LARGE_PAGE :]
            call("s2s_large_pages", self.left, len(self.left) // 4096 * 4096)
        place, self.left = self.left[:n_bytes], self.left[(n_bytes + 63) // 64 * 64 :]
        return place.view(x.dtype).view(x.shape).copy_(x)


class Product:
    """x W^T + b."""

    def __init__(self, shape: torch.Size, bias: Tensor | None, **laid_out: Tensor) -> None:
        """Of W [O, I] and b [O], with the tensors that the `Map` points to."""
        self.n_outputs, self.n_inputs = shape
        bias = torch.zeros(self.n_outputs) if bias is None else bias.detach()
        self.tensors = {"bias": _filled(bias), **laid_out}
        pointers = {name: tensor.data_ptr() for name, tensor in self.tensors.items()}
        self.map = Map(**pointers, n_inputs=self.n_inputs, n_outputs=self.n_outputs)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        x = x.contiguous()
        out = x.new_empty(*x.shape[:-1], self.n_outputs)
        call("s2s_product", ctypes.byref(self.map), x, x.numel() // self.n_inputs, out)
        return out


class Floats(Product):
    """In fp32."""

    def __init__(self, weight: Tensor, bias: Tensor | None, room: Room) -> None:
        panels = _filled(weight.detach()).unflatten(0, (-1, columns()))  # [O / C, C, I]
        super().__init__(weight.shape, bias, weight=room.keep(panels.transpose(1, 2)))


class Bytes(Product):
    """In 8-bit integers: a scale for each output of W, and for each row of x by itself."""

    def __init__(self, weight: Tensor, bias: Tensor | None, room: Room) -> None:
        whole, scale = in_bytes(weight.detach())
        whole = _filled(F.pad(whole, (0, -whole.size(1) % 4)))
        panels = whole.unflatten(0, (-1, columns())).unflatten(2, (-1, 4))  # [O / C, C, I / 4, 4]
        zero = whole.sum(1, dtype=torch.int32) * ZERO
        laid_out = {"weight": room.keep(panels.transpose(1, 2)), "scale": _filled(scale), "zero": zero}
        super().__init__(weight.shape, bias, **laid_out)


ZERO = 128
"""What stands for 0 among unsigned 8-bit inputs"""


def in_bytes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W [O, I] as signed 8-bit numbers, and what each of its rows is to be multiplied by, [O]."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


def has_linear() -> bool:
    """Whether there are these functions, for the threads that torch has been given."""
    return library().functions is not None and torch.get_num_threads() == 1


def has_int8_linear() -> bool:
    """Whether those of 8-bit integers are there, which need AVX-512 VNNI."""
    return has_linear() and bool(number("s2s_has_int8"))


def columns() -> int:
    """The outputs of a panel."""
    return number("s2s_columns")


def _filled(x: Tensor) -> Tensor:
    """x [O, ...] with zeros up to whole panels."""
    return F.pad(x, (0, 0) * (x.dim() - 1) + (0, -len(x) % columns())).contiguous()
