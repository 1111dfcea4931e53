"""The folder in the user's cache: where it is, who may write to it, and what is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from s2s.io import cache_folder, check_trusted, private_cache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_named_without_being_created(cache: Path) -> None:
    assert cache_folder("models") == cache / "s2s" / "models"
    assert not cache.exists()


def test_a_private_folder_is_this_users_alone_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0o277)
    try:
        cache.mkdir(mode=0o700)
        cache.chmod(0o700)
        folder = private_cache("packed")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    assert private_cache("packed") == folder
    assert private_cache() == folder.parent


@pytest.mark.parametrize("opened", ["s2s", "s2s/packed"])
def test_a_folder_that_others_may_write_to_is_refused(cache: Path, opened: str) -> None:
    private_cache("packed")
    (cache / opened).chmod(0o770)
    with pytest.raises(PermissionError, match=rf"{opened} can be written to by others \(chmod go-w "):
        private_cache("packed")


def test_a_link_is_refused_also_to_a_folder_of_ones_own(cache: Path, tmp_path: Path) -> None:
    private_cache()
    (cache / "s2s" / "packed").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="is a symbolic link"):
        private_cache("packed")


@pytest.mark.parametrize("taken", ["s2s", "s2s/packed"])
def test_a_file_in_the_place_of_a_folder_is_refused(cache: Path, taken: str) -> None:
    (cache / taken).parent.mkdir(parents=True)
    (cache / taken).touch(mode=0o600)
    with pytest.raises(NotADirectoryError, match=f"{taken} is no folder"):
        private_cache("packed")


def test_what_another_user_owns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        check_trusted(tmp_path)


def test_a_user_without_a_home_is_told_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in /etc/passwd."""

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(OSError, match="no home directory; give XDG_CACHE_HOME"):
        cache_folder()
