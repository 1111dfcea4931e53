"""The output that the options name, and checks before a model is loaded."""

from __future__ import annotations

__all__ = ["open_output"]

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.data.text import open_bytes
from s2s.errors import ConfigError
from s2s.generation.files.output_stream import OutputStream
from s2s.generation.files.resumable_file import ResumableFile
from s2s.generation.files.sharding import ShardFile, find_shard
from s2s.generation.files.streams import check_not_gzip, is_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.config import GenerateConfig


def open_output(config: GenerateConfig) -> OutputStream:
    """The output that the options name; nothing is written yet. Devices, such as /dev/null, are never replaced."""
    if not config.output or os.path.isdir(config.output):  # noqa: PTH112  Path's own raises on a name too long
        raise ConfigError(f"output={config.output}: name a file, or - for standard output")
    output = _output(config)
    if not is_stream(config.input):
        with open_bytes(Path(config.input)) as source:
            _check_input(config, os.fstat(source.fileno()), output.files())
    return output


def _output(config: GenerateConfig) -> OutputStream:
    """A stream, a file, or this command's shard of one."""
    is_file = not is_stream(config.output)
    if config.resume and (not is_file or is_stream(config.input)):
        raise ConfigError("resume=true compares files: give input=FILE and output=FILE")
    if is_file:
        check_not_gzip(config.output)
    shard = find_shard(config, is_file=is_file)
    if shard is None and not is_file:
        return OutputStream(config.output)
    file = ShardFile(shard, config) if shard else ResumableFile(Path(config.output), overwrite=config.overwrite)
    if config.resume:
        file.supports_resume, file.line_counting_option = True, "resume=true"
    return file


def _check_input(config: GenerateConfig, source: os.stat_result, written: Iterable[Path]) -> None:
    for path in written:
        with suppress(OSError):
            if os.path.samestat(source, path.stat()):
                also = "" if path == Path(config.output) else f" (output={config.output} writes {path.name}, too)"
                raise ConfigError(f"input and output are one file, {config.input}{also}; give another output")
