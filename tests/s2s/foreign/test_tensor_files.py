"""Tensors of a Hugging Face folder: names first, each tensor when it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from s2s.errors import CheckpointError
from s2s.foreign import open_tensors

if TYPE_CHECKING:
    from pathlib import Path

TENSORS = {"a": torch.arange(3.0), "b": torch.ones(2, 2, dtype=torch.float16)}


def assert_same(folder: Path) -> None:
    opened = open_tensors(folder)
    assert dict(opened).keys() == TENSORS.keys()
    assert len(opened) == len(TENSORS)
    assert all(torch.equal(opened[name], tensor) for name, tensor in TENSORS.items())


def test_one_file_is_read(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.safetensors")
    assert_same(tmp_path)


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    for i, (name, tensor) in enumerate(TENSORS.items(), 1):
        save_file({name: tensor}, tmp_path / f"model-0000{i}-of-00002.safetensors")
    assert_same(tmp_path)


def test_a_pickle_is_read(tmp_path: Path) -> None:
    torch.save(TENSORS, tmp_path / "pytorch_model.bin")
    assert_same(tmp_path)


class Touch:
    """What executes code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "b": Touch(tmp_path / "executed")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="its weights are not readable"):
        open_tensors(tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no tensors")
    with pytest.raises(CheckpointError, match=f"^{tmp_path}: its weights are not readable: "):
        open_tensors(tmp_path)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has neither model\.safetensors nor pytorch_model\.bin$"):
        open_tensors(tmp_path)
