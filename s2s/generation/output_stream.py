"""The output of s2s-generate: standard output, or a file that can be continued after an interruption."""

from __future__ import annotations

__all__ = ["OutputStream", "open_output"]

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from s2s.data.text import open_bytes
from s2s.errors import ConfigError
from s2s.generation.formats import OUTPUT_FORMATS
from s2s.generation.input_lines import is_stream
from s2s.generation.resumable_file import ResumableFile
from s2s.generation.sharding import ShardFile, find_shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.config import GenerateConfig


class OutputStream:
    """Standard output (-), a pipe or a device, in UTF-8 whatever the locale, flushed after every output."""

    def __init__(self, path: str) -> None:
        self.path = path

    def files(self) -> list[Path]:
        """Every file that is written."""
        return [] if self.path == "-" else [Path(self.path)]

    def is_done(self, made_of: Mapping[str, Any]) -> bool:
        """False: a stream cannot be continued."""
        return False

    def begin(self, made_of: Mapping[str, Any]) -> int:
        """Open the stream; 0 outputs are written."""
        if self.path != "-":
            self.file: IO[bytes] = Path(self.path).open("wb")  # noqa: SIM115  closed by `close`
        elif sys.stdout is None:
            raise ConfigError("output=-: standard output is closed; give output=FILE")
        else:
            self.file = sys.stdout.buffer
        return 0

    resume = begin

    def write(self, lines: Iterable[str]) -> None:
        """Write lines."""
        try:
            self.file.write("".join(f"{line}\n" for line in lines).encode())
            self.file.flush()
        except OSError as error:
            error.filename = "standard output" if self.path == "-" else self.path
            raise

    def finish(self) -> None:
        """Nothing to do: `write` flushes."""

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self.path != "-":
            self.file.close()

    def unfinished(self) -> str:
        """The end of an error message: nothing."""
        return ""


def open_output(config: GenerateConfig) -> OutputStream | ResumableFile | ShardFile:
    """The output that the options name; nothing is written yet. Devices, such as /dev/null, are not renamed over."""
    _check(config)
    output = _output(config)
    if config.input != "-" and not is_stream(config.input):
        with open_bytes(Path(config.input)) as source:
            _refuse_input(config, os.fstat(source.fileno()), output.files())
    return output


def _output(config: GenerateConfig) -> OutputStream | ResumableFile | ShardFile:
    shard = find_shard(config)
    if shard is None and (config.output == "-" or is_stream(config.output)):
        return OutputStream(config.output)
    n_lines = OUTPUT_FORMATS[config.format].n_lines(config.nbest) if config.format in OUTPUT_FORMATS else 0
    return ShardFile(shard, config.output, n_lines) if shard else ResumableFile(Path(config.output), n_lines)


def _check(config: GenerateConfig) -> None:
    """Refuse impossible inputs and outputs before a model is loaded."""
    if config.nbest > 1 and config.format not in ("tsv", "jsonl"):
        raise ConfigError(f"nbest={config.nbest} needs format=tsv or jsonl: {config.format} has the best alone")
    if not config.output or os.path.isdir(config.output):  # noqa: PTH112  Path's own raises on a name too long
        raise ConfigError(f"output={config.output}: name a file, or - for standard output")
    reads_file = config.input != "-" and not is_stream(config.input)
    if config.resume and (not reads_file or config.output == "-" or is_stream(config.output)):
        raise ConfigError("resume=true compares files: give input=FILE and output=FILE")


def _refuse_input(config: GenerateConfig, source: os.stat_result, written: Iterable[Path]) -> None:
    for path in written:
        with suppress(OSError):
            if os.path.samestat(source, path.stat()):
                also = "" if path == Path(config.output) else f" (output={config.output} writes {path.name}, too)"
                raise ConfigError(f"input and output are one file, {config.input}{also}; give another output")
