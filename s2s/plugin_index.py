"""What plugins register, kept in the user's cache, so that a command imports only the plugins that it uses.

A start that finds no index imports all plugins, and writes down the entry points and, for each plugin that s2s ships,
the names of its entries, groups and options, and its hooks. A start with an index imports such a plugin when an entry's
config or factory, one of its options, or a hook is first used. Plugins of others are always imported: what they
register may depend on anything, but that of the shipped ones on nothing but their sources.

An index is valid for one Python and search path, as long as size and time are unchanged of every source file that was
imported, every folder of the search path and the metadata of every distribution. Otherwise, and whatever else is wrong
with it, plugins are loaded as if there were none.
"""

from __future__ import annotations

__all__ = ["PluginIndex", "Point", "find_points"]

import importlib
import json
import os
import sys
import time
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from s2s.deferred import DeferredPlugin, Record
from s2s.hooks import GROUP
from s2s.io.user_cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s.registry import Registry

SETTLED = 2_000_000_000
"""Nanoseconds after which a file has another time when it is changed again, also where the system counts seconds"""


class Point(NamedTuple):
    """An entry point of the group s2s, and the distribution that has it."""

    name: str
    value: str
    """module, or module:object"""
    distribution: str = ""
    version: str = ""

    @property
    def module(self) -> str:
        return self.value.partition("[")[0].partition(":")[0].strip()

    @property
    def origin(self) -> str:
        """Distribution and version."""
        return f"{self.distribution} {self.version}" if self.distribution else self.value

    @property
    def is_shipped(self) -> bool:
        return self.distribution == "s2s-toolkit"

    def load(self) -> Any:
        """The module or object."""
        name = self.value.partition("[")[0].partition(":")[2].strip()
        module = importlib.import_module(self.module)
        return attrgetter(name)(module) if name else module


def find_points() -> list[Point]:
    """All that are installed."""
    from importlib.metadata import entry_points  # imports email and zipfile, which takes 0.015 s

    points = dict.fromkeys(entry_points(group=GROUP))
    # A distribution parses its metadata on every access to its name: 0.1 s for the plugins of s2s alone.
    known = {dist: (dist.name, dist.version) if dist else () for dist in {point.dist for point in points}}
    return [Point(point.name, point.value, *known[point.dist]) for point in points]


class PluginIndex(NamedTuple):
    """All entry points, and what the shipped plugins register, by their names."""

    points: list[Point]
    records: dict[str, Record]

    def deferred(self, point: Point, registry: Registry) -> DeferredPlugin | None:
        """The plugin, to be imported later; None if it must be imported now."""
        record = self.records.get(point.name)
        return DeferredPlugin(point.name, point.module, record, registry) if record else None

    @classmethod
    def read(cls) -> PluginIndex | None:
        """The index in the cache; None if there is none, or if anything has changed since it was written."""
        try:
            with _file().open("rb") as file:
                status = os.fstat(file.fileno())
                checksum, _, body = file.read().partition(b"\n")
            is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not is_own or checksum != _checksum(body):
                return None
            kept = json.loads(body)
        except (OSError, ValueError):
            return None
        if kept["path"] != _search_path() or any(_stamp(file) != stamp for file, stamp in kept["stamps"].items()):
            return None
        records = {name: Record(*record) for name, record in kept["records"].items()}
        return cls([Point(*point) for point in kept["points"]], records)

    def write(self) -> None:
        """Put the index into the cache, unless that is impossible, or files are so new that they may be changing."""
        stamps = {file: _stamp(file) for file in sorted({*self._sources(), *_metadata()})}
        newest = max(stamp[1] for stamp in stamps.values() if stamp)
        if newest > time.time_ns() - SETTLED:
            return
        kept = {"path": _search_path(), "stamps": stamps, "points": self.points, "records": self.records}
        body = json.dumps(kept).encode()
        try:
            _replace(_file(), _checksum(body) + b"\n" + body)
        except IsADirectoryError:
            import logging  # 5 ms, which other starts do without

            what = "a folder: no index of plugins can be kept, and each start imports them all"
            logging.getLogger(__name__).warning("%s is %s; remove it", _file(), what)
        except OSError:  # the cache cannot be written to, or is full
            return

    def _sources(self) -> Iterator[str]:
        """The files that the modules of s2s and its plugins were imported from."""
        packages = {point.module.partition(".")[0] for point in self.points if point.is_shipped}
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages and getattr(module, "__file__", None):
                yield str(module.__file__)


def _metadata() -> Iterator[str]:
    """The folders of the search path, and what may name entry points, a distribution or its version in them."""
    for folder in _search_path()[1:]:
        yield folder
        with suppress(OSError):
            for entry in os.scandir(folder):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    yield from (f"{entry.path}/{name}" for name in ("entry_points.txt", "METADATA", "PKG-INFO"))


def _search_path() -> list[str]:
    """What finds modules and distributions: Python with its finders, and the folders in their order."""
    finders = [str(finder) for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    return [f"{sys.version} {finders}", *map(os.path.abspath, sys.path)]


def _stamp(file: str) -> list[int] | None:
    """Size and time of a file or folder; None if there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116  there are hundreds
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _checksum(body: bytes) -> bytes:
    return b"%08x" % crc32(body)


def _file() -> Path:
    """One for each environment of Python and copy of s2s."""
    return cache_folder() / f"plugins-{crc32(f'{sys.prefix} {__file__}'.encode()):08x}.json"


def _replace(file: Path, content: bytes) -> None:
    """Write a file in one step, under a name that no other process uses meanwhile."""
    import tempfile

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
        os.replace(temporary, file)  # noqa: PTH105
    except OSError:
        os.unlink(temporary)  # noqa: PTH108
        raise
