"""The loop of s2s-generate: windows of inputs in, lines of outputs out."""

from __future__ import annotations

__all__ = ["answer"]

from itertools import islice
from typing import TYPE_CHECKING

from s2s.errors import DataError
from s2s.generation.formats import find_format
from s2s.generation.input_lines import lines_of, windows
from s2s.generation.sharding import Part, n_lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.config import GenerateConfig
    from s2s.generation import Output
    from s2s.generation.generator import Generator
    from s2s.generation.output_stream import Stream
    from s2s.generation.resumable_file import ResumableFile


def answer(generator: Generator, config: GenerateConfig, output: Stream | ResumableFile, n_written: int = 0) -> None:
    """Write what comes out for every input but the first `n_written`, whose outputs are there already.

    A window of which some are written is decoded whole: the batches, and with them the last digits of the
    scores, are then what they would have been.
    """
    form = find_format(config, generator.task)
    name = "standard input" if config.input == "-" else config.input
    lines, first = lines_of(config.input), 0
    if isinstance(output, Part):
        own = output.share.lines(n_lines_of(config.input), config.buffer_size)
        lines, first = islice(lines, own.start, own.stop), own.start
    try:
        for index, window in enumerate(windows(lines, config.buffer_size, form.parse, name, first)):
            n_old = n_written - index * config.buffer_size
            if n_old >= len(window):
                continue
            outputs = generator.generate([record.given for record in window])
            for place, record in enumerate(window):
                found = _next(outputs, record.place)
                if place >= n_old:
                    output.write(form.render(record, found, config.nbest))
    except DataError as error:
        raise DataError(f"{error}{output.unfinished()}") from None


def _next(outputs: Iterator[Output], place: str) -> Output:
    try:
        return next(outputs)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
