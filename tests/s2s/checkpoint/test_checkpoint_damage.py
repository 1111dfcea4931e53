from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
import torch

from harness.small_checkpoints import FILES, names, save
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.manifest import verify
from s2s.errors import CheckpointError
from s2s.io import atomic

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


def test_a_damaged_newest_gives_way_to_the_one_before_and_is_named(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / "step-000003/MANIFEST.json").unlink()
    (tmp_path / "step-000002/model.safetensors").write_bytes(b"")
    path, skipped = checkpoint.latest(tmp_path)
    assert path == tmp_path / "step-000001"
    assert len(skipped) == 2
    assert "step-000003 is no complete checkpoint" in skipped[0]
    assert "model.safetensors is damaged: 0 bytes, and the manifest says" in skipped[1]


@pytest.mark.parametrize("file", FILES)
def test_every_truncation_is_detected(file: str, tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    whole = (path / file).read_bytes()
    for size in random.Random(1).sample(range(len(whole)), min(len(whole), 110)):
        (path / file).write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            checkpoint.load(path)


@pytest.mark.parametrize("file", FILES)
def test_every_flipped_bit_is_detected(file: str, tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    whole, rng = (path / file).read_bytes(), random.Random(2)
    n_bits = 8 * len(whole)
    for bit in rng.sample(range(n_bits), min(n_bits, 300)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (path / file).write_bytes(damaged)
        with pytest.raises(CheckpointError):
            checkpoint.load(path)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("page", [64, 4096])
def test_every_zeroed_page_is_detected(file: str, page: int, tmp_path: Path) -> None:
    """100 of them at random places, of a disk's size and of a size of which small files have many."""
    path = save(tmp_path, 1)
    whole, rng = (path / file).read_bytes(), random.Random(3)
    n_damaged = 0
    while n_damaged < 100:
        start = rng.randrange(len(whole))
        damaged = whole[:start] + bytes(len(whole[start : start + page])) + whole[start + page :]
        if damaged == whole:  # zeros were there before
            continue
        n_damaged += 1
        (path / file).write_bytes(damaged)
        with pytest.raises(CheckpointError):
            checkpoint.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["model", "optim"])
def test_pages_of_large_files_are_checked_as_well(group: str, tmp_path: Path) -> None:
    """400 damages, 300 bits and 100 pages, of a file of 2 MB, each at a place of its own."""
    torch.manual_seed(0)
    tensors = {name: {"weight": torch.randn(512, 1024)} for name in ("model", "optim")}
    path = checkpoint.save(tmp_path, "step-000001", tensors, {"step": 1})
    file = path / f"{group}.safetensors"
    whole, rng = file.read_bytes(), random.Random(4)
    pages = range(0, len(whole), 4096)
    damages = [(8 * page, False) for page in rng.sample(pages, 100)]
    damages += [(bit, True) for bit in rng.sample(range(8 * len(whole)), 300)]
    for bit, is_flip in damages:
        damaged = bytearray(whole)
        if is_flip:
            damaged[bit // 8] ^= 1 << bit % 8
        else:
            damaged[bit // 8 : bit // 8 + 4096] = bytes(len(whole[bit // 8 : bit // 8 + 4096]))
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            checkpoint.load(path)


@pytest.mark.parametrize("file", FILES)
def test_every_missing_file_is_detected(file: str, tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / file).unlink()
    with pytest.raises(CheckpointError, match=file):
        checkpoint.load(path)


def test_files_of_others_are_ignored_but_weights_without_a_voucher_are_not(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    for name in (".nfs000012", "model.safetensors.tmp", "notes.txt", ".DS_Store"):
        (path / name).write_text("not ours")
    verify(path)
    (path / "ema.safetensors").write_bytes((path / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="not in the manifest"):
        verify(path)


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (tmp_path / "secret.json").write_text("{}")
    manifest = json.loads((path / "MANIFEST.json").read_text())
    manifest["../secret.json"] = {"size": 2, "sha256": atomic.sha256(tmp_path / "secret.json")}
    (path / "MANIFEST.json").write_text(json.dumps(manifest, indent=1))
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(path)


def test_a_write_that_comes_back_differently_is_not_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from s2s.checkpoint import tensors as module

    def careless(stored: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        save_file({name: t + 1 for name, t in stored.items()}, path, metadata)

    save_file = module.save_file
    monkeypatch.setattr(module, "save_file", careless)
    with pytest.raises(CheckpointError, match="came back with other bytes"):
        save(tmp_path, 1)
    assert names(tmp_path) == []
