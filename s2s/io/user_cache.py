"""The folder s2s in the user's cache, and whether another user could have written what lies there."""

from __future__ import annotations

__all__ = ["cache_folder", "check_trusted", "private_cache"]

import os
import stat
from pathlib import Path


def cache_folder(name: str = "") -> Path:
    """The folder of this name in s2s's part of the user's cache, which may not exist.

    Raises OSError for a user without a home directory.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "s2s" / name
    except RuntimeError:
        raise OSError("this user has no home directory; give XDG_CACHE_HOME") from None


def private_cache(name: str = "") -> Path:
    """The same for what is executed, or read without a check: it and the folder s2s are created for this user alone.

    Raises PermissionError if it or the folder s2s exists but is not this user's alone, NotADirectoryError for a file,
    OSError if it cannot be created.
    """
    folder = cache_folder()
    for path in dict.fromkeys((folder, folder / name)):
        try:
            path.mkdir(mode=0o700, parents=True)
            path.chmod(0o700)  # mkdir's mode is subject to the umask
        except FileExistsError:
            check_trusted(path)
            if not path.is_dir():
                raise NotADirectoryError(f"{path} is no folder") from None
    return folder / name


def check_trusted(path: Path) -> None:
    """Raise PermissionError if another user owns a file or folder, or may write to it, or if it is a link."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError(f"{path} is a symbolic link")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & 0o022:
        raise PermissionError(f"{path} can be written to by others (chmod go-w {path})")
