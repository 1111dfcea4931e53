"""Output files of s2s-generate that a killed command continues, and that several commands share. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_open_output"]

from pathlib import Path
from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.generation import OutputStream


@hookimpl(trylast=True)
def s2s_open_output(config: GenerateConfig, is_file: bool) -> OutputStream | None:
    """A file, or this command's shard of one; None for a stream."""
    from s2s_output_files.resumable_file import ResumableFile
    from s2s_output_files.sharding import ShardFile, find_shard

    if shard := find_shard(config, is_file=is_file):
        return ShardFile(shard, config)
    return ResumableFile(Path(config.output)) if is_file else None
