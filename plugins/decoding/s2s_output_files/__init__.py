"""Output files of s2s-generate that are continued after a kill, or shared by several commands. No torch at import."""

from __future__ import annotations

__all__ = ["OutputFileOptions", "s2s_open_output", "s2s_register"]

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError, Registry, hookimpl
from s2s.config import NEUTRAL, OF_FILES, GenerateConfig

if TYPE_CHECKING:
    from s2s.generation import OutputStream


@dataclass(kw_only=True)
class OutputFileOptions(GenerateConfig):
    """Output files that are continued, or shared."""

    shard: str = field(default="", metadata=OF_FILES | NEUTRAL)
    """Shard of the input for this command, such as 3/16; the last to finish merges the outputs. After a kill, the same
    command continues. Under torchrun each process takes a shard."""
    resume: bool = field(default=False, metadata=OF_FILES | NEUTRAL)
    """Continue the output file of a killed command."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(OutputFileOptions)


@hookimpl(trylast=True)
def s2s_open_output(config: OutputFileOptions, is_file: bool) -> OutputStream | None:
    """A file, or this command's shard of one; None for a stream."""
    from s2s.generation import check_not_gzip, is_stream
    from s2s_output_files.resumable_file import ResumableFile
    from s2s_output_files.sharding import ShardFile, find_shard

    if config.resume and (not is_file or is_stream(config.input)):
        raise ConfigError("resume=true compares files: give input=FILE and output=FILE")
    if is_file:
        check_not_gzip(config.output)
    shard = find_shard(config, is_file=is_file)
    if shard is None and not is_file:
        return None
    file = ShardFile(shard, config) if shard else ResumableFile(Path(config.output))
    if config.resume:
        file.supports_resume, file.line_counting_option = True, "resume=true"
    return file
