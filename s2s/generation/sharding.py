"""One of several commands that share an input: each does a numbered part, and the last to finish joins the parts.

Parts are runs of whole windows, so that joined they are, to the byte, what one command writes. A part that is there
is not done again, one that a killed command left behind is continued: the same command may be started any number of
times, anywhere that sees the files.
"""

from __future__ import annotations

__all__ = ["Part", "Share", "n_lines_of", "share_of"]

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.compose import differences
from s2s.data.text import blocks
from s2s.errors import ConfigError, DataError, UserError
from s2s.generation.input_lines import is_stream
from s2s.generation.resumable_file import ResumableFile
from s2s.io.atomic import sha256, write_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.config import GenerateConfig


@dataclass(frozen=True)
class Share:
    """Which part of the input is ours."""

    number: int
    """From 1"""
    of: int

    def lines(self, n_lines: int, window: int) -> range:
        """The lines of this part, from 0, of as many in all: whole windows, as many in each part as can be."""
        n_windows = -(-n_lines // window)
        first, last = (n * n_windows // self.of * window for n in (self.number - 1, self.number))
        return range(min(first, n_lines), min(last, n_lines))

    def path(self, output: str) -> Path:
        """Where it is written."""
        return Path(f"{output}.shard-{self.number:05d}-of-{self.of:05d}")


class Part(ResumableFile):
    """The output of a share; beside it stands what it is made of."""

    otherwise = "remove it"

    def __init__(self, share: Share, output: str, n_lines: int) -> None:
        super().__init__(share.path(output), n_lines)
        self.share, self.output = share, Path(output)
        self.made_of: Mapping[str, Any] = {}

    def is_done(self) -> bool:
        """Whether the part is there, or all of them were, and have been joined."""
        if _facts(self.path).exists() and super().is_done():
            join(self)  # the one who finished last may have been killed before it could
            return True
        return self.output.exists() and not any(self.output.parent.glob(f"{self.output.name}.shard-*"))

    def resume(self, made_of: Mapping[str, Any]) -> int:
        self.made_of = made_of
        return super().resume(made_of)

    def finish(self) -> None:
        facts = {"sha256": sha256(self.partial), "made_of": self.made_of}
        write_file(_facts(self.path), json.dumps(facts, indent=1))
        super().finish()
        join(self)


def share_of(config: GenerateConfig) -> Share | None:
    """What `shard` says, or torchrun where it has started several of us; None: all of the input."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    share = Share(rank + 1, size)
    if config.shard:
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", config.shard)
        share = Share(int(found[1]), int(found[2])) if found else Share(0, 0)
        if not 1 <= share.number <= share.of:
            raise ConfigError(f"shard={config.shard}: expected a part and how many there are, from 1/4 to 4/4")
        if size > 1:
            raise ConfigError(f"shard={config.shard}: torchrun has started {size} processes, which share all of it")
    if share.of == 1 and not config.shard:
        return None
    if config.input == "-" or is_stream(config.input) or config.output == "-" or is_stream(config.output):
        raise ConfigError("several commands share files: give input=FILE and output=FILE")
    return share


def n_lines_of(path: str) -> int:
    """Lines of a file."""
    return sum(len(block) for block in blocks(Path(path), "drop"))


def join(part: Part) -> None:
    """Make the output of all parts, if they are all there, and remove them."""
    shares = [Share(number, part.share.of) for number in range(1, part.share.of + 1)]
    paths = [share.path(str(part.output)) for share in shares]
    if not all(path.exists() and _facts(path).exists() for path in paths):
        return
    whole = ResumableFile(part.output, part.n_lines)
    try:
        with suppress(FileNotFoundError):  # another command has joined them, and removes them just now
            made_of = _agreed(paths)
            whole.begin(made_of)
            for path in paths:
                with path.open("rb") as source, os.fdopen(os.dup(whole.descriptor), "wb") as target:
                    shutil.copyfileobj(source, target)
            whole.finish()
            for path in paths:
                _facts(path).unlink()
                path.unlink()
    except DataError:
        raise
    except UserError:
        return  # another command is at it
    finally:
        whole.close()


def _agreed(paths: list[Path]) -> dict[str, Any]:
    """What all parts are made of."""
    first: dict[str, Any] | None = None
    for path in paths:
        facts = json.loads(_facts(path).read_bytes())
        if facts["sha256"] != sha256(path):
            raise DataError(f"{path} is not as it was written; remove it, and make it again")
        first = first or facts["made_of"]
        if changed := differences(first, facts["made_of"]):
            what = ", ".join(f"{key} was {old!r} and {new!r}" for key, (old, new) in changed.items())
            raise DataError(
                f"{path} and {paths[0]} are not parts of one output: {what}; remove what is old, and make it again"
            )
    assert first is not None
    return first


def _facts(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
