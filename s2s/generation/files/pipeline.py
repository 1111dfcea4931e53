"""The loop of s2s-generate, from buffers of input lines to lines of output."""

from __future__ import annotations

__all__ = ["buffers", "generate_file"]

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from s2s.errors import DataError, PluginError
from s2s.generation.files.input_lines import lines_of
from s2s.task import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s.config import GenerateConfig
    from s2s.data import Line
    from s2s.generation.candidates import Input, Output
    from s2s.generation.files.output_stream import OutputStream
    from s2s.generation.formats import InputFormat, OutputFormat, Record
    from s2s.generation.generator import Generator

T = TypeVar("T")


def generate_file(
    generator: Generator,
    config: GenerateConfig,
    read: InputFormat,
    write: OutputFormat,
    output: OutputStream,
    n_written: int = 0,
) -> None:
    """Write the output of every input but the first `n_written`, whose outputs `output` already has.

    A partly written buffer is decoded again as a whole, so that its batches, and with them the last digits of the
    scores, are those of an uninterrupted command. Raises DataError if there are fewer inputs than `n_written`.
    """
    name = "standard input" if config.input == "-" else config.input
    numbers = output.inputs()
    lines, first = lines_of(config.input), numbers.start if numbers else 0
    parse = _following(generator, read)
    try:
        n_read = 0
        if numbers is not None:
            lines = _shard(lines, numbers, parse if generator.task.context else None, name)
        for number, records in enumerate(buffers(lines, config.buffer_size, parse, name, first)):
            n_read += len(records)
            n_old = n_written - number * config.buffer_size
            if n_old >= len(records):
                continue
            inputs = [record.input for record in records]
            if config.raw is None:
                inputs = [_read_raw(one, generator) for one in inputs]
            outputs = generator.generate(inputs)
            for i, record in enumerate(records):
                output_record = _next(outputs, record.location)
                if i >= n_old:
                    output.write(_lines(write, record, output_record, config.nbest), record.line_end)
        if n_written > n_read:
            raise DataError(f"{n_written:,} outputs are there already for {n_read:,} inputs; start anew")
    except DataError as error:
        raise DataError(f"{error}{output.unfinished()}") from None


def _read_raw(one: Input, generator: Generator) -> Input:
    """The input in words, if the task takes it for raw text."""
    return replace(one, src=generator.task.read_raw(one.src)) if generator.task.looks_raw(one.src) else one


def _following(generator: Generator, read: InputFormat) -> Callable[[str, str], Record]:
    """Reads successive lines, whose inputs get the texts before them as context."""
    follow = generator.follower()

    def parse(line: str, location: str) -> Record:
        record = _record(read, line, location)
        try:
            return replace(record, input=follow(record.input))
        except DataError as error:
            raise DataError(f"{location}: {error}") from None

    return parse


def _shard(
    lines: Iterator[Line | None], numbers: range, parse: Callable[[str, str], Record] | None, name: str
) -> Iterator[Line | None]:
    """The lines of a shard; `parse`, if it is given, has read all before them."""
    for number, line in enumerate(islice(lines, numbers.start), 1):
        if parse and isinstance(line, str):
            parse(line, f"{name}:{number}")
    return islice(lines, len(numbers))


def _record(read: InputFormat, line: str, location: str) -> Record:
    """The input in a line with its end and perhaps a mark of the byte order, which no format and no model reads."""
    whole = line.rstrip("\r\n")
    text = whole.removeprefix("\ufeff")
    mark, end = whole[: len(whole) - len(text)], line[len(whole) :]
    return replace(read.read(text, location), byte_order_mark=mark, line_end=end)


def _lines(write: OutputFormat, record: Record, output: Output, nbest: int) -> list[str]:
    """The lines of an output; raises PluginError where the outputs after it could not be told apart from it."""
    lines, n = write.render(record, output, nbest), write.n_lines(nbest)
    what = f"{type(write).__name__}.render"
    if isinstance(lines, str) or (n and any("\n" in line for line in lines)):
        raise PluginError(
            f"{what}: expected a list of lines without line ends (s2s.generation.one_line), got {lines!r}"
        )
    if n and len(lines) != n:
        raise PluginError(f"{what}: expected {n} lines, as its n_lines says, got {len(lines)}")
    return lines


def _next(outputs: Iterator[Output], location: str) -> Output:
    try:
        return next(outputs)
    except DataError as error:
        raise DataError(f"{location}: {error}") from None


def buffers(
    lines: Iterable[Line | None], size: int, parse: Callable[[str, str], T], name: str, first: int = 0
) -> Iterator[list[T]]:
    """Inputs in lists of `size`, shorter where the sender pauses; `parse` takes a line and its location.

    first: number of lines before these. The inputs before a bad line are yielded before its DataError is raised.
    """
    buffer: list[T] = []
    number = first
    try:
        for line in lines:
            if line is not None:
                number += 1
                buffer.append(parse(_good(line, f"{name}:{number}"), f"{name}:{number}"))
            if len(buffer) == size or (buffer and line is None):
                yield buffer
                buffer = []
    except DataError:
        if buffer:
            yield buffer
        raise
    if buffer:
        yield buffer


def _good(line: Line, location: str) -> str:
    if isinstance(line, Rejected):
        raise DataError(f"{location}: {line.reason}; expected a line of UTF-8 text. Repair the line")
    return line
