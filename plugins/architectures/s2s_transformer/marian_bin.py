"""Tensors in the binary format of Marian (marian-conv), as Firefox has them: matrices may be integers, with one scale.

A file has a version, the number of tensors, for each four numbers (bytes of its name, type, dimensions, bytes of its
data), then all names, all shapes, the number of bytes up to the data, and the data. All is little-endian.
"""

from __future__ import annotations

__all__ = ["BinTensors"]

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from s2s import CheckpointError, DataError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

VERSION = 1
KINDS = {0x100: "i", 0x200: "u", 0x400: "f"}
"""The class of a type, above the number of bytes of a value"""
INTEGERS = {0x10001: "i1", 0x4101: "i1", 0x10002: "i2", 0x4102: "i2"}
"""intgemm8 and intgemm16, as Marian and as Firefox's Marian number them"""
TABLE = "Wemb"
"""In the names of tables of embeddings, the only matrices of integers that are not transposed in a file"""
LONGEST_NAME, MOST_DIMENSIONS = 1 << 12, 16
MOST_EXPANDED = 100
"""A compressed file that becomes larger than this many times its size is no model"""


class Item(NamedTuple):
    """Where a tensor's data lie."""

    kind: int
    shape: tuple[int, ...]
    start: int
    n_bytes: int


class BinTensors(Mapping[str, Tensor]):
    """The tensors of a file, which may be compressed; those of integers are the fp32 values that they stand for."""

    def __init__(self, path: Path) -> None:
        """Raises CheckpointError if the file is damaged, or no such file."""
        self.path = path
        try:
            self.data = _content(path)
            self.items_in_file = _items(self.data)
        except DataError as error:
            raise CheckpointError(str(error)) from error
        except (ValueError, OSError) as error:
            raise CheckpointError(f"{path} is no model in Marian's binary format: {error}") from error

    def __getitem__(self, name: str) -> Tensor:
        item = self.items_in_file[name]
        dtype, n = self._dtype(name), math.prod(item.shape)
        values = np.frombuffer(self.data[item.start : item.start + n * dtype.itemsize], dtype)
        if item.kind not in INTEGERS:
            return torch.from_numpy(values.astype(dtype.newbyteorder("="))).view(item.shape)
        factor = np.float32(1) / np.float32(self.multiplier(name))
        tensor = torch.from_numpy(values.astype(np.float32) * factor)
        is_transposed = TABLE not in name and len(item.shape) == 2
        return tensor.view(item.shape[::-1]).t() if is_transposed else tensor.view(item.shape)

    def multiplier(self, name: str) -> float:
        """The number m of a tensor of integers: those are w * m, rounded. 0: it is not one of 8-bit integers."""
        item = self.items_in_file[name]
        if item.kind not in INTEGERS:
            return 0.0
        dtype = self._dtype(name)
        start = item.start + math.prod(item.shape) * dtype.itemsize
        found = float(np.frombuffer(self.data[start : start + 4], "<f4")[0])
        if not (math.isfinite(found) and found > 0):
            raise CheckpointError(f"{self.path}: '{name}' has the scale {found}, which is not positive")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_in_file)

    def __len__(self) -> int:
        return len(self.items_in_file)

    def _dtype(self, name: str) -> np.dtype[Any]:
        """Of a tensor's values; CheckpointError unless they are numbers that fit its number of bytes."""
        item = self.items_in_file[name]
        code = INTEGERS.get(item.kind) or f"{KINDS.get(item.kind & ~0xFF, '')}{item.kind & 0xFF}"
        if code not in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
            raise CheckpointError(
                f"{self.path}: '{name}' is of type {item.kind:#x}, packed for one kind of processor; convert the model "
                "with --gemm-type intgemm8 or float32"
            )
        dtype = np.dtype(f"<{code}")
        n_bytes = math.prod(item.shape) * dtype.itemsize + (4 if item.kind in INTEGERS else 0)
        if n_bytes > item.n_bytes:
            raise CheckpointError(
                f"{self.path}: '{name}' is {list(item.shape)} of {dtype}, but has {item.n_bytes} bytes"
            )
        return dtype


def _content(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file: mapped into memory, or uncompressed; ValueError for one that grows without bound."""
    first = VERSION.to_bytes(8, "little")
    with path.open("rb") as file:
        if file.read(len(first)) == first:
            return np.memmap(path, np.uint8, "r")
    most = MOST_EXPANDED * path.stat().st_size
    with open_bytes(path, text=False) as file:
        content = file.read(most + 1)
    if not content.startswith(first):
        raise ValueError(f"it does not begin with version {VERSION}")
    if len(content) > most:
        raise ValueError(f"it becomes more than {MOST_EXPANDED} times as large when it is unpacked")
    return np.frombuffer(content, np.uint8)


def _items(data: NDArray[np.uint8]) -> dict[str, Item]:
    """The tensors by name; ValueError if the numbers do not fit the file."""

    def take(start: int, n: int, dtype: str) -> list[int]:
        end = start + n * np.dtype(dtype).itemsize
        if n < 0 or end > len(data):
            raise ValueError("it is cut off")
        return np.frombuffer(data[start:end], dtype).tolist()

    at, n = 16, take(8, 1, "<u8")[0]
    headers = np.array(take(at, 4 * n, "<u8"), dtype=object).reshape(n, 4).tolist()
    at += 32 * n
    names, shapes, items = [], [], {}
    for n_name, _, _, _ in headers:
        if not 1 < n_name <= LONGEST_NAME:
            raise ValueError(f"a name of {n_name} bytes is in it")
        names.append(bytes(take(at, n_name, "u1")).rstrip(b"\0").decode())
        at += n_name
    for _, _, n_dimensions, _ in headers:
        if n_dimensions > MOST_DIMENSIONS:
            raise ValueError(f"a tensor of {n_dimensions} dimensions is in it")
        shapes.append(tuple(take(at, n_dimensions, "<i4")))
        at += 4 * n_dimensions
    at += 8 + take(at, 1, "<u8")[0]
    for name, shape, (_, kind, _, n_bytes) in zip(names, shapes, headers, strict=True):
        if name in items or any(size < 0 for size in shape):
            raise ValueError(f"'{name}' is there twice" if name in items else f"'{name}' is of shape {list(shape)}")
        items[name] = Item(kind, shape, at, n_bytes)
        at += n_bytes
    if at > len(data):
        raise ValueError("it is cut off")
    return items
