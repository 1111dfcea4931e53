"""The loop of s2s-generate: buffers of input lines in, lines of outputs out."""

from __future__ import annotations

__all__ = ["generate_file"]

from itertools import islice
from typing import TYPE_CHECKING

from s2s.errors import DataError
from s2s.generation.input_lines import buffers, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.config import GenerateConfig
    from s2s.generation import Output
    from s2s.generation.formats import InputFormat, OutputFormat
    from s2s.generation.generator import Generator
    from s2s.generation.output_stream import OutputStream


def generate_file(
    generator: Generator,
    config: GenerateConfig,
    read: InputFormat,
    write: OutputFormat,
    output: OutputStream,
    n_written: int = 0,
) -> None:
    """Write the output of every input but the first `n_written`, which `output` already has.

    A partly written buffer is decoded whole, so that its batches, and with them the last digits of the scores, are
    those of an uninterrupted command. Raises DataError if there are fewer inputs than `n_written`.
    """
    name = "standard input" if config.input == "-" else config.input
    own = output.inputs()
    lines, first = lines_of(config.input), own.start if own else 0
    if own is not None:
        lines = islice(lines, own.start, own.stop)
    try:
        n_read = 0
        for number, records in enumerate(buffers(lines, config.buffer_size, read.read, name, first)):
            n_read += len(records)
            n_old = n_written - number * config.buffer_size
            if n_old >= len(records):
                continue
            outputs = generator.generate([record.given for record in records])
            for i, record in enumerate(records):
                found = _next(outputs, record.location)
                if i >= n_old:
                    output.write(write.render(record, found, config.nbest))
        if n_written > n_read:
            raise DataError(f"{n_written:,} outputs are there already for {n_read:,} inputs; start anew")
    except DataError as error:
        raise DataError(f"{error}{output.unfinished()}") from None


def _next(outputs: Iterator[Output], location: str) -> Output:
    try:
        return next(outputs)
    except DataError as error:
        raise DataError(f"{location}: {error}") from None
