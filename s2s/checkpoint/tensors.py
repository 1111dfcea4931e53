"""One safetensors file: named tensors, those that are the same one stored once.

safetensors refuses tensors that share memory. Tied weights are stored under the first of their names; the
other names stand in the file's metadata, and are there again when it is read.
"""

from __future__ import annotations

__all__ = ["read_tensors", "size", "snapshot", "write_tensors"]

import json
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from s2s import durable
from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write and sync one file, and read it back: what lies there is what was meant."""
    aliases = _aliases(tensors)
    stored = {name: _alone(t) for name, t in tensors.items() if name not in aliases}
    # one entry, since the library writes several in an order of its own, and equal runs have equal bytes
    save_file(stored, path, metadata={"aliases": json.dumps(aliases, sort_keys=True)})
    path.chmod(path.parent.stat().st_mode & 0o666)  # the library leaves 0600, whatever the umask
    durable.sync(path)
    written = load_file(path)
    for name, tensor in stored.items():
        if not torch.equal(_bytes(written[name]), _bytes(tensor)):
            raise CheckpointError(f"{path}: '{name}' came back with other bytes: check the disk")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, on the CPU, mapped rather than read; tied names share one tensor."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        aliases: dict[str, str] = json.loads((file.metadata() or {}).get("aliases", "{}"))
    return tensors | {alias: tensors[kept] for alias, kept in aliases.items()}


def snapshot(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, to be written while the originals change; what was one tensor is one copy."""
    aliases = _aliases(tensors)
    # a clone of a tensor on the CPU, which `cpu` would give back as it is
    copies = {n: t.detach().clone().cpu() for n, t in tensors.items() if n not in aliases}
    return {name: copies[aliases.get(name, name)] for name in tensors}


def size(*groups: Mapping[str, Tensor]) -> int:
    """Bytes that these take on the disk, names apart."""
    total = 0
    for group in groups:
        aliases = _aliases(group)
        total += sum(t.nbytes for name, t in group.items() if name not in aliases)
    return total


def _aliases(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Names whose tensor is the very one of an earlier name -> that name."""
    first: dict[object, str] = {}
    aliases = {}
    for name, t in tensors.items():
        place = (t.device, t.data_ptr(), t.dtype, t.shape, t.stride())
        if t.numel() and first.setdefault(place, name) != name:
            aliases[name] = first[place]
    return aliases


def _alone(tensor: Tensor) -> Tensor:
    """On the CPU, contiguous, and alone in its memory: a view of a larger tensor is copied."""
    t = tensor.detach().cpu().contiguous()
    return t if t.untyped_storage().nbytes() == t.nbytes else t.clone()


def _bytes(tensor: Tensor) -> Tensor:
    """The same memory as bytes, so that NaN equals itself and -0.0 is not 0.0."""
    return tensor.reshape(-1).view(torch.uint8)
