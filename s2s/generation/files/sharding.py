"""Shards: several commands share an input, each generates a numbered shard, and the last to finish merges them.

A shard consists of consecutive whole buffers, so that the merged file is byte-identical to that of a single command. A
finished shard is not generated again, and an unfinished one is continued: the same command may be started any number of
times, on any machine with access to the files.
"""

from __future__ import annotations

__all__ = ["OutputShard", "ShardFile", "find_shard"]

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.compose import differences
from s2s.data.text import blocks
from s2s.errors import ConfigError, DataError, UserError
from s2s.generation.files.resumable_file import ResumableFile
from s2s.generation.files.streams import is_stream
from s2s.io.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.config import GenerateConfig


class OutputShard(Shard):
    """A numbered part of the input, and its output."""

    def lines(self, n_lines: int, buffer_size: int) -> range:
        """The line numbers of this shard, from 0, of `n_lines`: whole buffers, nearly equally many in each shard."""
        n_buffers = -(-n_lines // buffer_size)
        first, last = (n * n_buffers // self.of * buffer_size for n in (self.number - 1, self.number))
        return range(min(first, n_lines), min(last, n_lines))

    def path(self, output: str) -> Path:
        """The file of this shard."""
        return Path(f"{output}.shard-{self.number:05d}-of-{self.of:05d}")


class ShardFile(ResumableFile):
    """The output of a shard; when all shards are finished, they become the whole output."""

    otherwise = how_to_begin_anew = "remove it"  # a shard is always resumed
    supports_resume = True

    def __init__(self, shard: OutputShard, config: GenerateConfig) -> None:
        super().__init__(shard.path(config.output), overwrite=config.overwrite)
        self.shard, self.config, self.whole = (
            shard,
            config,
            ResumableFile(Path(config.output), overwrite=config.overwrite),
        )
        self.whole.otherwise = self.otherwise

    def inputs(self) -> range:
        """The numbers of the input lines of this shard."""
        n_lines = sum(len(block) for block in blocks(Path(self.config.input), "drop"))
        return self.shard.lines(n_lines, self.config.buffer_size)

    def files(self) -> list[Path]:
        return [*super().files(), *self.whole.files()]

    def is_done(self, provenance: Mapping[str, Any]) -> bool:
        """Whether the shard is finished, or all shards are finished and merged."""
        if super().is_done(provenance):
            merge(self)  # the command that finished last may have been killed before it could
            return True
        shard = f"{self.whole.path.name}.shard-"
        none_left = not any(path.name.startswith(shard) for path in self.path.parent.glob("*"))
        return none_left and self.whole.is_done(provenance)

    def finish(self) -> None:
        super().finish()
        merge(self)


def find_shard(config: GenerateConfig, *, is_file: bool) -> OutputShard | None:
    """The shard of the option, or of this rank under torchrun; None: the whole input."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    shard = OutputShard(rank + 1, size)
    if config.shard:
        shard = OutputShard.parse(config.shard)
        if size > 1:
            raise ConfigError(f"shard={config.shard}: torchrun has started {size} processes, which share all of it")
    if shard.of == 1 and not config.shard:
        return None
    if not is_file or is_stream(config.input):
        raise ConfigError("several commands share files: give input=FILE and output=FILE")
    return shard


def merge(file: ShardFile) -> None:
    """If all shards are finished, merge their outputs and remove the shards."""
    numbers = range(1, file.shard.of + 1)
    shards = [ResumableFile(OutputShard(n, file.shard.of).path(str(file.whole.path))) for n in numbers]
    if not all(shard.path.exists() and shard.record.exists() for shard in shards):
        return
    whole = file.whole
    try:
        with suppress(FileNotFoundError):  # another command has merged them, and is removing them
            whole.begin(_agreed(shards))
            for shard in shards:
                with shard.path.open("rb") as source, os.fdopen(os.dup(whole.descriptor), "wb") as target:
                    shutil.copyfileobj(source, target)
            whole.finish()
            for shard in shards:
                shard.record.unlink()
                shard.path.unlink()
    except DataError:
        raise
    except UserError:
        return  # another command is merging them
    finally:
        whole.close()


def _agreed(shards: list[ResumableFile]) -> dict[str, Any]:
    """What all shards were made of; DataError if they differ."""
    first = shards[0].provenance()
    for shard in shards[1:]:
        if changed := differences(first, shard.provenance()):
            what = ", ".join(f"{key} was {old!r} and {new!r}" for key, (old, new) in changed.items())
            raise DataError(
                f"{shard.path} and {shards[0].path} are not shards of one output: {what}; remove what is old, and make "
                "it again"
            )
    return first
