"""Tensors in the files of a Hugging Face folder, each read when it is asked for."""

from __future__ import annotations

__all__ = ["open_tensors"]

import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"


def open_tensors(folder: Path) -> Mapping[str, Tensor]:
    """All tensors of model.safetensors in a folder, or else of pytorch_model.bin, which is read without executing it;
    each may be in several files, as its index says or, without an index, as they are found.

    Nothing is read but names; each look-up reads one tensor. Raises CheckpointError if there is no such file, if it is
    damaged, if the index names a file outside of the folder, or if a tensor is there twice.
    """
    try:
        if files := _files(folder, SAFETENSORS):
            return SafeTensors(_by_name(files, _names))
        loaded = {file: _unpickled(file) for file in _files(folder, PICKLED)}
    except CheckpointError:
        raise
    except Exception as error:  # torch.load raises pickle's own, among others
        raise CheckpointError(f"{folder}: its weights are not readable: {error}") from error
    if not loaded:
        raise CheckpointError(f"{folder} has neither {SAFETENSORS} nor {PICKLED}")
    return {name: loaded[file][name] for name, file in _by_name(list(loaded), lambda file: list(loaded[file])).items()}


class SafeTensors(Mapping[str, Tensor]):
    """Tensors by name, each read when it is asked for."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

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


def _files(folder: Path, name: str) -> list[Path]:
    """The file of this name, or the files that its index names, or those whose names say that they are its parts."""
    if (folder / name).is_file():
        return [folder / name]
    index, (stem, suffix) = folder / f"{name}.index.json", name.split(".")
    if not index.is_file():
        return sorted(folder.glob(f"{stem}-*-of-*.{suffix}"))
    try:
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{index} is no index of tensors: {type(error).__name__}: {error}") from error
    for file in files:
        if not isinstance(file, str) or file != folder.joinpath(file).name or not folder.joinpath(file).is_file():
            raise CheckpointError(f"{index} names {file!r}, which is no file in this folder")
    return sorted(folder / file for file in files)


def _by_name(files: list[Path], names: Callable[[Path], list[str]]) -> dict[str, Path]:
    """The file of each tensor"""
    found: dict[str, Path] = {}
    for file in files:
        for name in names(file):
            if name in found:
                raise CheckpointError(f"'{name}' is in both {found[name].name} and {file.name} of {file.parent}")
            found[name] = file
    return found


def _names(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return list(opened.keys())


def _unpickled(file: Path) -> dict[str, Tensor]:
    is_zip = zipfile.is_zipfile(file)  # files of 2020 and earlier are not, and cannot be mapped into memory
    loaded: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip)
    if not isinstance(loaded, dict) or not all(isinstance(x, str) for x in loaded):
        raise CheckpointError(f"{file} holds no tensors by name")
    if other := [name for name, tensor in loaded.items() if not isinstance(tensor, Tensor)]:
        raise CheckpointError(f"{file}: '{other[0]}' is no tensor")
    return loaded
