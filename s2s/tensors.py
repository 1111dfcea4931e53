"""Trees of tensors, such as the state of a search: apply one function to all tensors, or join two trees.

And tensors of a device whose values the host has, since it has made them or read them once.
"""

from __future__ import annotations

__all__ = ["host_copies", "host_copy", "list_tensors", "map_tensors", "remember_copy", "to_device"]

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Tree = Any
"""A tensor, None, or tuples, lists, dicts and dataclasses of these."""
Part = Callable[[Tensor], Tensor]
"""What of a tensor is meant, such as its first columns: a function of a module, by which copies are found again"""


def map_tensors(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """The same tree with `function` applied to every tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(function, value) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map_tensors(function, value) for value in tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: map_tensors(function, getattr(tree, f.name)) for f in fields(tree)})
    return tree


def list_tensors(tree: Tree) -> list[Tensor]:
    """All tensors of a tree, in the order in which `map_tensors` visits them."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(note, tree)
    return tensors


def to_device(x: Tensor, device: torch.device, *, pin: bool = False) -> Tensor:
    """x, of the host and not written to from now on, on a device; `host_copy` then gives x without a wait.

    pin: copied asynchronously, from pinned memory (see `Device.pins_memory`).
    """
    moved = x.pin_memory().to(device, non_blocking=True) if pin else x.to(device)
    if moved is not x:
        remember_copy(moved, x)
    return moved


def whole(x: Tensor) -> Tensor:
    """All of a tensor."""
    return x


def host_copy(x: Tensor, part: Part = whole) -> Tensor:
    """The values of x on the host, which waits for the device unless it has them; they must not be written to.

    part: what of x is copied, as for `remember_copy`.
    """
    known = None if x.is_cpu else known_copy(x, part)
    return part(x).cpu() if known is None else known


def host_copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The values of several tensors of one device, integers, booleans or fp32, bit for bit; see `host_copy`.

    Those that the host does not have yet are read in one transfer, since each one waits for the device, and remembered.
    """
    known = [x if x.is_cpu else known_copy(x) for x in tensors]
    unknown = [x for x, copy in zip(tensors, known, strict=True) if copy is None]
    if unknown:
        copied = torch.cat([_bits(x).flatten() for x in unknown]).cpu().split([x.numel() for x in unknown])
        read = [_from_bits(bits, x) for x, bits in zip(unknown, copied, strict=True)]
        for x, copy in zip(unknown, read, strict=True):
            if not x.is_inference():  # torch does not count writes to it
                remember_copy(x, copy)
        rest = iter(read)
        known = [next(rest) if copy is None else copy for copy in known]
    return [copy for copy in known if copy is not None]


def remember_copy(x: Any, copy: Tensor, part: Part = whole) -> None:
    """From now on, until x is written to, the host has the values of part(x), x a tensor of a device: those of `copy`.

    For what a function makes of tensors whose values the host has. Without effect on a tensor of the host: a copy that
    is a view would keep the tensor before it alive, and so each one that was before that.
    """
    if x.is_cpu:
        return
    x.host_copies = {**getattr(x, "host_copies", {}), part: (copy, _n_writes(x))}


def known_copy(x: Tensor, part: Part = whole) -> Tensor | None:
    """The values of part(x), if the host has them."""
    copy, n_writes = getattr(x, "host_copies", {}).get(part, (None, 0))
    return copy if n_writes == _n_writes(x) else None


def _bits(x: Tensor) -> Tensor:
    assert not x.is_floating_point() or x.dtype == torch.float32
    return (x.contiguous().view(torch.int32) if x.is_floating_point() else x).long()


def _from_bits(bits: Tensor, like: Tensor) -> Tensor:
    if like.is_floating_point():
        return bits.int().view(torch.float32).view(like.shape)
    return bits.to(like.dtype).view(like.shape)


def _n_writes(x: Tensor) -> int:
    """How often x was written to; torch does not count that for a tensor made in inference mode, of which this is 0."""
    return 0 if x.is_inference() else x._version


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """The rows `rows` [B'] of all tensors [B, ...], which all lie on one device; the rows may lie on the host."""
    of_device: list[Tensor] = []

    def pick(x: Tensor) -> Tensor:
        if not of_device:
            of_device.append(rows.to(x.device))  # copied once
        picked = x.index_select(0, of_device[0])
        if rows.is_cpu and (known := known_copy(x)) is not None:
            remember_copy(picked, known.index_select(0, rows))
        return picked

    return map_tensors(pick, tree)


def join_tensors(first: Tree, second: Tree, join: Callable[[Tensor, Tensor], Tensor] | None = None) -> Tree:
    """Two trees of the same structure joined into one: tensors are concatenated, with zeros at the end of the shorter
    dimensions, or combined by `join`."""
    if isinstance(first, Tensor):
        if join is not None:
            return join(first, second)
        sizes = [max(pair) for pair in zip(first.shape[1:], second.shape[1:], strict=True)]
        return torch.cat([_padded(first, sizes), _padded(second, sizes)])
    if isinstance(first, dict):
        return {key: join_tensors(value, second[key], join) for key, value in first.items()}
    if isinstance(first, tuple | list):
        joined = [join_tensors(a, b, join) for a, b in zip(first, second, strict=True)]
        return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
    if is_dataclass(first) and not isinstance(first, type):
        names = [f.name for f in fields(first)]
        return replace(first, **{n: join_tensors(getattr(first, n), getattr(second, n), join) for n in names})
    return first


def _padded(x: Tensor, sizes: list[int]) -> Tensor:
    """x [B, ...] -> [B, *sizes]"""
    room = [n for old, new in zip(x.shape[:0:-1], sizes[::-1], strict=True) for n in (0, new - old)]
    return F.pad(x, room) if any(room) else x
