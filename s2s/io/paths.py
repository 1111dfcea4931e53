"""Paths as options name them."""

from __future__ import annotations

__all__ = ["expand_user"]

from pathlib import Path
from typing import TYPE_CHECKING

from s2s.errors import ConfigError

if TYPE_CHECKING:
    import os


def expand_user(name: str | os.PathLike[str], key: str) -> Path:
    """The path that the option `key` names; a leading ~ is the user's home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ConfigError(f"{key}: {name}: no such user; write the path out") from None
