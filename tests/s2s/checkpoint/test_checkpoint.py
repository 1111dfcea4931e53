from __future__ import annotations

import os
import stat
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from harness.small_checkpoints import FILES, assert_same, names, save, tensors
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.tensors import snapshot
from s2s.errors import CheckpointError
from s2s.io import atomic

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    state = {"step": 12, "seconds": 0.1 + 0.2, "name": "ß\u2028", "none": None, "list": [1, 2.5]}
    path = checkpoint.save(tmp_path, "step-000012", tensors(), state)
    loaded = checkpoint.load(path)
    assert loaded.state == state
    for group, content in tensors().items():
        assert_same(loaded.tensors[group], content)


def test_a_checkpoint_consists_of_the_documented_files(tmp_path: Path) -> None:
    assert names(save(tmp_path, 12)) == sorted(FILES)
    assert names(tmp_path) == ["step-000012"]


def test_files_have_the_rights_that_the_umask_gives(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    modes = {stat.S_IMODE((path / name).stat().st_mode) for name in FILES}
    assert modes == {path.stat().st_mode & 0o666}


def test_tied_tensors_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    assert sorted(load_file(path / "model.safetensors")) == ["bias", "weight"]
    loaded = checkpoint.load(path).tensors["model"]
    assert loaded["tied"] is loaded["weight"]


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.randn(4, 6).t(), id="transposed"),
        pytest.param(torch.arange(12)[3:7], id="view"),
        pytest.param(torch.empty(0, 3), id="empty"),
        pytest.param(torch.tensor([float("nan"), -0.0, float("inf")]), id="special"),
        pytest.param(torch.randn(3).bfloat16(), id="bf16"),
        pytest.param(torch.tensor(True), id="bool"),
        pytest.param(torch.get_rng_state(), id="rng"),
    ],
)
def test_every_kind_of_tensor_survives(tensor: Tensor, tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, "x", {"model": {"t": tensor}}, {})
    loaded = checkpoint.load(path).tensors["model"]["t"]
    assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(loaded.reshape(-1).view(torch.uint8), tensor.reshape(-1).contiguous().view(torch.uint8))


def test_tensors_that_are_parts_of_one_are_stored_each_by_itself(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    parts = {"first": whole[:5], "second": whole[5:], "row": whole.view(3, 4)[1], "whole": whole}
    path = checkpoint.save(tmp_path, "x", {"model": parts}, {})
    assert_same(checkpoint.load(path).tensors["model"], parts)


def test_a_snapshot_keeps_what_was_while_the_originals_change(tmp_path: Path) -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    live = {"a": weight, "tied": weight, "turned": weight.T, "row": weight[1]}
    before = {name: t.clone() for name, t in live.items()}
    copies = snapshot(live)
    weight.add_(1)
    assert all(torch.equal(copies[name], t) for name, t in before.items())
    assert copies["a"] is copies["tied"]
    assert list(copies) == list(live)


def test_a_snapshot_shares_what_nothing_changes() -> None:
    named = {"a": torch.ones(3), "b": torch.ones(3)}
    copies = snapshot(named, frozen={"b"})
    assert [copies[name].data_ptr() == named[name].data_ptr() for name in "ab"] == [False, True]


def test_equal_contents_give_equal_bytes(tmp_path: Path) -> None:
    weight = torch.randn(3)
    tied = {"model": dict.fromkeys("abcdefg", weight)}
    one, two = (checkpoint.save(tmp_path, name, tied, {"step": 1}) for name in ("one", "two"))
    for name in ("model.safetensors", "state.json", "MANIFEST.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_the_order_of_tied_names_changes_nothing(tmp_path: Path) -> None:
    weight = torch.randn(3)
    one, two = (
        checkpoint.save(tmp_path, names, {"model": dict.fromkeys(names, weight)}, {}) for names in ("abc", "acb")
    )
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("needed", "free", "suffices"), [(0, 0, True), (1000, 2000, True), (1000, 1999, False)])
def test_twice_the_size_of_a_checkpoint_must_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: int, free: int, suffices: bool
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    if suffices:
        checkpoint.check_space(tmp_path / "new", needed)
    else:
        with pytest.raises(
            CheckpointError, match="a checkpoint needs 2 x 1,000 bytes of free space, and there are 1,9"
        ):
            checkpoint.check_space(tmp_path / "new", needed)
    assert names(tmp_path / "new") == []


def test_the_newest_is_the_one_with_the_highest_step_whatever_the_clock_says(tmp_path: Path) -> None:
    for step in (900_000, 1_000_000, 1_500):
        save(tmp_path, step)
    os.utime(tmp_path / "step-1000000", (0, 0))
    os.utime(tmp_path / "step-001500", (time.time() + 86400,) * 2)
    assert checkpoint.latest(tmp_path) == (tmp_path / "step-1000000", [])


def test_a_folder_without_checkpoints_has_no_newest(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "missing") == (None, [])


def test_only_what_is_asked_for_is_read_and_checked(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / "optim.safetensors").write_bytes(b"damaged")
    assert list(checkpoint.load(path, only=("model", "ema")).tensors) == ["model"]


def test_prune_leaves_what_no_step_names(tmp_path: Path) -> None:
    save(tmp_path, 1)
    checkpoint.save(tmp_path, "average", tensors(), {})
    checkpoint.prune(tmp_path, [])
    assert names(tmp_path) == ["average"]


def test_what_a_killed_replacement_left_is_put_back_or_removed(tmp_path: Path) -> None:
    """The older checkpoint counts only where there is no newer one of its name."""
    for name, content in ((".one.old", "1"), (".two.old", "2"), ("two", "new"), (".three.tmp", "3")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(content)
    (tmp_path / ".four.tmp").write_text("a file cannot be removed like a folder")
    checkpoint.clean_up(tmp_path)
    assert names(tmp_path) == [".four.tmp", "one", "two"]
    assert [(tmp_path / name / "file").read_text() for name in ("one", "two")] == ["1", "new"]


def test_space_is_looked_for_in_a_folder_that_is_made_with_its_parents(tmp_path: Path) -> None:
    checkpoint.check_space(tmp_path / "runs" / "x" / "checkpoints", 1)
    assert names(tmp_path / "runs" / "x" / "checkpoints") == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "*"])
def test_a_checkpoint_has_a_name_that_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot name a checkpoint"):
        checkpoint.save(tmp_path, name, {}, {})


def test_links_are_replaced_and_followed(tmp_path: Path) -> None:
    link = tmp_path / "best"
    assert atomic.read_link(link) is None
    for name in ("one", "two"):
        atomic.write_link(link, tmp_path / "checkpoints" / name)
        followed = atomic.read_link(link)
        assert followed == tmp_path / "checkpoints" / name
    assert names(tmp_path) == ["best"]


def test_where_symlinks_are_impossible_a_text_file_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no symlinks here")

    monkeypatch.setattr(os, "symlink", refuse)
    atomic.write_link(tmp_path / "best", tmp_path / "checkpoints/x")
    assert (tmp_path / "best").read_text() == "checkpoints/x\n"
    assert atomic.read_link(tmp_path / "best") == tmp_path / "checkpoints/x"


def test_nothing_is_ever_unpickled() -> None:
    from pathlib import Path

    package = Path(checkpoint.__file__).parent
    code = "".join(file.read_text() for file in package.glob("*.py"))
    assert not any(word in code for word in ("torch.load", "import pickle", "torch.save", "eval(", "exec("))
