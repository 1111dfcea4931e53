"""The output of s2s-generate: a stream, or what a plugin opens, such as a file that a killed command continues."""

from __future__ import annotations

__all__ = ["OutputStream", "open_output"]

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from s2s.data.text import open_bytes
from s2s.errors import ConfigError
from s2s.generation.input_lines import is_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.config import GenerateConfig
    from s2s.plugin import Plugins


class OutputStream:
    """Standard output (-), a pipe, a device or a file, in UTF-8 whatever the locale, flushed after every output.

    The contract of an output, too: one of a plugin derives from it.
    """

    continues = False
    """Whether it continues what an earlier command wrote without being asked for (resume=true)"""

    def __init__(self, path: str) -> None:
        self.name = path

    def files(self) -> list[Path]:
        """Every file that is written."""
        return [] if self.name == "-" else [Path(self.name)]

    def inputs(self) -> range | None:
        """The numbers of the input lines, from 0, whose outputs belong here; None: all."""
        return None

    def is_done(self, made_of: Mapping[str, Any]) -> bool:
        """Whether an earlier command finished it, of the same input, checkpoint and options: never, of a stream."""
        return False

    def begin(self, made_of: Mapping[str, Any]) -> int:
        """Start anew; 0 outputs are written."""
        if self.name != "-":
            self.file: IO[bytes] = Path(self.name).open("wb")  # noqa: SIM115  closed by `close`
        elif sys.stdout is None:
            raise ConfigError("output=-: standard output is closed; give output=FILE")
        else:
            self.file = sys.stdout.buffer
        return 0

    def resume(self, made_of: Mapping[str, Any], n_lines: int) -> int:
        """Continue; how many outputs, of `n_lines` lines each, are there already."""
        return self.begin(made_of)

    def write(self, lines: Iterable[str]) -> None:
        """Write the lines of one output."""
        try:
            self.file.write("".join(f"{line}\n" for line in lines).encode())
            self.file.flush()
        except OSError as error:
            error.filename = "standard output" if self.name == "-" else self.name
            raise

    def finish(self) -> None:
        """After the last output."""

    def close(self) -> None:
        """After `finish`, or after an error; standard output stays open."""
        if self.name != "-":
            self.file.close()

    def unfinished(self) -> str:
        """The end of an error message: where the outputs so far are."""
        return ""


def open_output(config: GenerateConfig, plugins: Plugins) -> OutputStream:
    """The output that the options name; nothing is written yet. Devices, such as /dev/null, are not renamed over."""
    _check(config)
    is_file = config.output != "-" and not is_stream(config.output)
    opened: OutputStream | None = plugins.hook.s2s_open_output(config=config, is_file=is_file)
    if opened is None and (config.resume or config.shard):
        asked = "resume=true" if config.resume else f"shard={config.shard}"
        raise ConfigError(f"{asked}: no loaded plugin continues a file.{plugins.registry.absent()}")
    output = opened or OutputStream(config.output)
    if config.input != "-" and not is_stream(config.input):
        with open_bytes(Path(config.input)) as source:
            _refuse_input(config, os.fstat(source.fileno()), output.files())
    return output


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
