"""The output that the options name, and checks before a model is loaded."""

from __future__ import annotations

__all__ = ["open_output"]

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.data import open_bytes
from s2s.generation import OutputStream, check_not_gzip, is_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s import Plugins
    from s2s.config import GenerateConfig


def open_output(config: GenerateConfig, plugins: Plugins) -> OutputStream:
    """The output that the options name; nothing is written yet. Devices, such as /dev/null, are never replaced."""
    _check(config)
    is_file = not is_stream(config.output)
    opened: OutputStream | None = plugins.hook.s2s_open_output(config=config, is_file=is_file)
    if opened is None and is_file:
        check_not_gzip(config.output)
    output = opened or OutputStream(config.output)
    if not is_stream(config.input):
        with open_bytes(Path(config.input)) as source:
            _check_input(config, os.fstat(source.fileno()), output.files())
    return output


def _check(config: GenerateConfig) -> None:
    """Refuse impossible inputs and outputs before a model is loaded."""
    if not config.output or os.path.isdir(config.output):  # noqa: PTH112  Path's own raises on a name too long
        raise ConfigError(f"output={config.output}: name a file, or - for standard output")


def _check_input(config: GenerateConfig, source: os.stat_result, written: Iterable[Path]) -> None:
    for path in written:
        with suppress(OSError):
            if os.path.samestat(source, path.stat()):
                also = "" if path == Path(config.output) else f" (output={config.output} writes {path.name}, too)"
                raise ConfigError(f"input and output are one file, {config.input}{also}; give another output")
