"""Files, links and folders that are replaced in one step."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from s2s.errors import ConfigError, DataError
from s2s.io.atomic import read_link, sha256, temporary, write_file, write_link
from s2s.io.atomic_folder import MARK, new_folder, remove_remnant
from s2s.io.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("data", ["tëxt\n", b"\x00\xff"], ids=["text", "bytes"])
def test_a_file_is_replaced_with_the_permissions_of_any_new_file(tmp_path: Path, data: str | bytes) -> None:
    path, umask = tmp_path / "x", os.umask(0o022)
    try:
        path.write_text("something longer that was there")
        write_file(path, data)
    finally:
        os.umask(umask)
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert path.stat().st_mode & 0o777 == 0o644
    assert sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    assert temporary(path) == tmp_path / ".x.tmp"


def no_links(*_: object) -> None:
    raise OSError("no symlinks here")


@pytest.mark.parametrize("has_links", [True, False], ids=["symlinks", "none"])
def test_a_link_names_its_target_relatively_and_may_be_replaced(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "symlink", no_links)
    folder = tmp_path / "run"
    folder.mkdir()
    link = folder / "best"
    assert read_link(link) is None
    for name in ("one", "two"):
        write_link(link, folder / "steps" / name)
        assert read_link(link) == folder / "steps" / name, "whether it exists or not"
    assert link.is_symlink() is has_links
    assert [path.name for path in folder.iterdir()] == ["best"]
    moved = folder.rename(tmp_path / "moved")
    assert read_link(moved / "best") == moved / "steps" / "two"


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "x"
    for name in ("one", "two"):
        with new_folder(target) as built:
            (built / "deep").mkdir()
            (built / "deep" / name).write_text(name)
        assert [str(path.relative_to(target)) for path in sorted(target.rglob("*"))] == ["deep", f"deep/{name}"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "x") as built:
        (built / "no" / "folder").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["x"]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    """A folder of that name that s2s did not make stays as it is."""
    place = tmp_path / ".x.tmp"
    for is_ours in (True, False):
        (place / "old").mkdir(parents=True)
        (place / "old" / "precious").write_text("1")
        if is_ours:
            (place / MARK).touch()
            with new_folder(tmp_path / "x"):
                pass
            assert not place.exists()
    with pytest.raises(DataError, match=r"\.x\.tmp is in the way, and s2s did not make it"), new_folder(tmp_path / "x"):
        pass
    assert (place / "old" / "precious").read_text() == "1"


def test_a_process_killed_while_it_removes_leaves_what_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, n_removed, killed = tmp_path / "x", 0, True
    while killed:
        target.mkdir(exist_ok=True)
        (target / "older").touch()
        left, killed = n_removed, False

        def dying(call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            call(*args, **kwargs)

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            for name in ("unlink", "rmdir"):
                patched.setattr(os, name, partial(dying, getattr(os, name)))
            killed = True
            with new_folder(target) as built:
                (built / "newer").touch()
            killed = False
        remove_remnant(target)
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
        n_removed += 1
    assert n_removed > 3


def test_a_path_may_begin_with_the_home_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_user("~/x", "data.prepared") == Path("/home/me/x")
    with pytest.raises(ConfigError, match=r"data.prepared: ~nobody-here/x: no such user; write the path out"):
        expand_user("~nobody-here/x", "data.prepared")
