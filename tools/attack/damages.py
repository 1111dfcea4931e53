"""The ways to damage a file that a command reads again; sizes of links and pipes, and times of files, stay."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

from attack.crafting import odd_place

if TYPE_CHECKING:
    import random
    from pathlib import Path

WAYS = (
    *("bit", "bit", "cut", "empty", "random", "zeros", "behind", "lines", "digit", "digit", "JSON", "JSON", "other"),
    *("neighbour", "pipe", "folder", "device", "nowhere", "loop", "victim", "gone"),
)
PLACES = ("pipe", "folder", "device", "nowhere", "loop", "victim", "gone")
"""Ways that put something else in the place of a file"""


def damage(draw: random.Random, file: Path, other: Path, victim: Path) -> str:
    """Change a file in a way that suits it, and return the way.

    other: the same file of another run, if there is one; victim: a file that a link may lead to.
    """
    before = file.read_bytes()
    while True:
        way = draw.choice(WAYS)
        if way in PLACES:
            _replace(way, file, victim)
            return way
        after = _changed(draw, way, before, file, other)
        if after is not None and after != before:
            times = file.stat()
            file.write_bytes(after)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            return way


def _replace(way: str, file: Path, victim: Path) -> None:
    file.unlink()
    if way == "pipe":
        os.mkfifo(file)
    elif way == "folder":
        file.mkdir()
    elif way != "gone":
        file.symlink_to({"device": "/dev/zero", "nowhere": "nix", "loop": file.name, "victim": victim}[way])


def _changed(draw: random.Random, way: str, data: bytes, file: Path, other: Path) -> bytes | None:
    """Other contents; None if the way does not suit them."""
    if way == "other":
        return other.read_bytes() if other.is_file() else None
    if way == "neighbour":
        return draw.choice([path for path in sorted(file.parent.iterdir()) if path.is_file()]).read_bytes()
    if way == "behind":
        return data + draw.randbytes(draw.choice((1, 99)))
    if way == "empty" or not data:
        return b""
    at = draw.randrange(len(data))
    if way == "bit":
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if way in ("cut", "zeros"):
        return data[:at] + (bytes(len(data[at : at + 99])) + data[at + 99 :] if way == "zeros" else b"")
    if way == "random":
        return draw.randbytes(len(data))
    return _changed_text(draw, way, data)


def _changed_text(draw: random.Random, way: str, data: bytes) -> bytes | None:
    if way == "lines":
        lines = data.splitlines(keepends=True)
        if len(lines) < 2:
            return None
        i, j = draw.sample(range(len(lines)), 2)
        lines[i], lines[j] = lines[j], lines[i]
        return b"".join(lines)
    if way == "digit":
        digits = [match.start() for match in re.finditer(rb"\d", data)]
        at = draw.choice(digits) if digits else 0
        return data[:at] + str(draw.randrange(10)).encode() + data[at + 1 :] if digits else None
    try:
        content = json.loads(data)
    except ValueError:
        return None
    if not isinstance(content, dict | list) or not content or draw.random() < 0.2:
        return json.dumps(draw.choice((None, 5, [], {}, "x", float("nan"), 10**400, [[[]]]))).encode()
    odd_place(draw, content)
    return json.dumps(content).encode()


def spoil(draw: random.Random, files: list[Path], folder: Path, others: Path) -> str:
    """Damage one of the files of `folder`, whose copies in another run have the same names in `others`."""
    file = draw.choice(files)
    victim = folder.parent / "victim.txt"
    victim.write_text("1\n")
    name = file.relative_to(folder)
    return f"{name}: {damage(draw, file, others / name, victim)}"
