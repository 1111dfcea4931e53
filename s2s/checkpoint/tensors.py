"""One safetensors file of named tensors; tied tensors are stored once.

safetensors refuses tensors that share memory. Tied weights are stored under the first of their names; the
other names are stored in the file's metadata, and restored when it is read.
"""

from __future__ import annotations

__all__ = ["n_bytes", "read_tensors", "snapshot", "write_tensors"]

import json
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.io.json_files import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

PIECE = 2**24
"""Bytes of a tensor that are read back and compared at once"""


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write and sync one file, and verify it by reading it back."""
    aliases = _aliases(tensors)
    stored = {name: _contiguous(t) for name, t in tensors.items() if name not in aliases}
    # one entry, since the library writes several in an order of its own, and equal runs have equal bytes
    save_file(stored, path, metadata={"aliases": json.dumps(aliases, sort_keys=True)})
    path.chmod(path.parent.stat().st_mode & 0o666)  # the library leaves 0600, whatever the umask
    atomic.fsync(path)
    _verify(path, stored)


def _verify(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Read the file back in small pieces, since mapping it whole needs as much address space again."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        header = parse_json(file.read(n_header))
        for name, tensor in tensors.items():
            file.seek(8 + n_header + header[name]["data_offsets"][0])
            for piece in _bytes(tensor).split(PIECE):
                if file.read(len(piece)) != piece.numpy().tobytes():
                    raise CheckpointError(f"{path}: '{name}' came back with other bytes: check the disk")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, on the CPU, mapped rather than read; tied names share one tensor."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        aliases: dict[str, str] = parse_json((file.metadata() or {}).get("aliases", "{}"))
    return tensors | {alias: tensors[kept] for alias, kept in aliases.items()}


def snapshot(tensors: Mapping[str, Tensor], frozen: Collection[str] = ()) -> dict[str, Tensor]:
    """Copies on the CPU, to be written while the originals change; tied tensors share one copy. Those that are `frozen`
    are not copied where they are on the CPU."""
    aliases = _aliases(tensors)
    # cloned, since `cpu` returns a tensor that is on the CPU as it is
    copies = {n: (t if n in frozen else t.detach().clone()).cpu() for n, t in tensors.items() if n not in aliases}
    return {name: copies[aliases.get(name, name)] for name in tensors}


def n_bytes(*groups: Mapping[str, Tensor]) -> int:
    """Bytes of these tensors on disk, without headers; tied tensors count once."""
    total = 0
    for group in groups:
        aliases = _aliases(group)
        total += sum(t.nbytes for name, t in group.items() if name not in aliases)
    return total


def _aliases(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Name of a tied tensor -> the first name of the same tensor."""
    first: dict[object, str] = {}
    aliases = {}
    for name, t in tensors.items():
        identity = (t.device, t.data_ptr(), t.dtype, t.shape, t.stride())
        if t.numel() and first.setdefault(identity, name) != name:
            aliases[name] = first[identity]
    return aliases


def _contiguous(tensor: Tensor) -> Tensor:
    """On the CPU, contiguous, and with a storage of its own: a view of a larger tensor is copied."""
    t = tensor.detach().cpu().contiguous()
    return t if t.untyped_storage().nbytes() == t.nbytes else t.clone()


def _bytes(tensor: Tensor) -> Tensor:
    """The same memory as bytes, so that NaN equals itself and -0.0 is not 0.0."""
    return tensor.reshape(-1).view(torch.uint8)
