"""Tensors in the files of a Hugging Face folder, each read when it is asked for."""

from __future__ import annotations

__all__ = ["open_tensors"]

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

SAFETENSORS, PICKLED = "model*.safetensors", "pytorch_model*.bin"


def open_tensors(folder: Path) -> Mapping[str, Tensor]:
    """All tensors of model*.safetensors in a folder, or else of pytorch_model*.bin, which is read without executing it.

    Nothing is read but names; each look-up reads one tensor. Raises CheckpointError if there is no such file, or if it
    is damaged.
    """
    files = sorted(folder.glob(SAFETENSORS))
    try:
        if files:
            return SafeTensors(files)
        loaded: dict[str, Tensor] = {}
        for file in sorted(folder.glob(PICKLED)):
            loaded |= torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch.load raises pickle's own, among others
        raise CheckpointError(f"{folder}: its weights are not readable: {error}") from error
    if not loaded:
        raise CheckpointError(f"{folder} has neither model.safetensors nor pytorch_model.bin")
    return loaded


class SafeTensors(Mapping[str, Tensor]):
    """Tensors by name, each read when it is asked for."""

    def __init__(self, files: list[Path]) -> None:
        self.files = {name: file for file in files for name in _names(file)}

    def __getitem__(self, name: str) -> Tensor:
        try:
            with safe_open(self.files[name], "pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{self.files[name]}: '{name}' is not readable: {error}") from error
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def _names(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return list(opened.keys())
