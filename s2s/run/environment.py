"""env.json: versions, code, plugins and machine, on which results also depend, and the warnings when they change."""

from __future__ import annotations

__all__ = ["changes", "environment", "versions"]

import hashlib
import platform
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import s2s
from s2s.backend.device_types import device_of
from s2s.run.environment_record import DISTRIBUTION, foreign_plugins, recorded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from s2s.distributed import World
    from s2s.plugin import Plugins

PACKAGES = (DISTRIBUTION, "torch", "numpy", "sentencepiece", "sacrebleu", "omegaconf", "safetensors")
AFFECTS_BITS = ("packages.torch", "device", "threads", "ranks")
"""Entries that make a resumed run differ in its last bits"""
MOST_NAMED = 3
"""Changed plugins that a warning names; of the others it gives the number"""


def environment(plugins: Plugins, world: World) -> dict[str, Any]:
    """The contents of env.json."""
    import torch  # which the other functions here do without

    return {
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "git": _git(Path(s2s.__file__).parent),
        "plugins": {
            name: {"origin": o, "sha256": _code(plugins.modules.get(name))} for name, o in plugins.loaded.items()
        },
        "device": f"{world.device.type} ({device_of(world.device).hardware()})",
        "threads": torch.get_num_threads(),
        "ranks": world.size,
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "command": sys.argv,
    }


def versions(plugins: Plugins) -> dict[str, str | None]:
    """Versions of Python and the packages, and hashes of the sources of s2s and its plugins: what may compute other
    numbers on another machine."""
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        "a hash of s2s": _code(s2s),
        **{f"a hash of plugin '{name}'": _code(plugins.modules.get(name)) for name in plugins.loaded},
    }


def changes(old: Mapping[str, Any], new: Mapping[str, Any], absent: Collection[str]) -> list[str]:
    """Warnings about changes after which a resumed run ends with different bytes, or with different results.

    absent: names of plugins that are blocked or broken.
    """
    words = []
    for key in AFFECTS_BITS:
        was, now = recorded(old, *key.split(".")), recorded(new, *key.split("."))
        if was != now:
            words.append(f"{key} was {was} and is {now}: the results will differ in their last bits")
    hashes = {name: [recorded(env, "plugins", name, "sha256") for env in (old, new)] for name in new["plugins"]}
    changed = [f"'{name}'" for name, (was, now) in hashes.items() if was and now and was != now]
    if len(changed) > MOST_NAMED:
        changed[MOST_NAMED:] = [f"and {len(changed) - MOST_NAMED} more"]
    if changed:
        what = f"plugins {', '.join(changed)} have" if len(changed) > 1 else f"plugin {changed[0]} has"
        words.append(f"{what} changed since: the run goes on with what it is now")
    for name, origin in _gone(old, new, absent):
        words.append(f"plugin '{name}' ({origin}) is no longer loaded: the run goes on without it")
    return words


def _gone(old: Mapping[str, Any], new: Mapping[str, Any], absent: Collection[str]) -> Iterator[tuple[str, str]]:
    """Plugins that were loaded and no longer are, with their origins.

    A file under another path is the same plugin; one that s2s ships and that is not absent has become part of the core.
    """
    hashes = {recorded(new, "plugins", name, "sha256") for name in new["plugins"]} - {None}
    for name in recorded(old, "plugins") or ():
        origin = recorded(old, "plugins", name, "origin")
        is_core = name not in absent and name not in foreign_plugins(old)
        if not (is_core or name in new["plugins"] or recorded(old, "plugins", name, "sha256") in hashes):
            yield name, origin


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(folder: Path) -> dict[str, Any] | None:
    """Commit of the sources, and whether they have been changed since; None if they are not under git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # a wheel may be installed inside another repository
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return None


def _code(module: Any) -> str | None:
    """A hash of a plugin's sources: its file, or all files if it is a package; None if it has no file."""
    if not getattr(module, "__file__", None):
        return None
    file = Path(str(module.__file__))
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    total = hashlib.sha256()
    for source in files:
        total.update(f"{source.relative_to(file.parent)}\0".encode() + source.read_bytes() + b"\0")
    return total.hexdigest()
