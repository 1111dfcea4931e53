"""Plain text, a task's own views, and the choice of the format that an option names."""

from __future__ import annotations

__all__ = ["TextInput", "TextOutput", "View", "input_format", "output_format"]

import re
from typing import TYPE_CHECKING

from s2s.errors import ConfigError, did_you_mean
from s2s.generation.candidates import Input, Output
from s2s.generation.formats import InputFormat, OutputFormat, Record, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.config import GenerateConfig
    from s2s.generation.generator import Generator
    from s2s.registry import Choice, Registry


LINE_END = re.compile(r"\r*\n")
"""What ends a line of a file; a \r by itself does not, and comes back where the input has it"""


class TextInput(InputFormat):
    """The line is the input."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, line: str, location: str) -> Record:
        return Record(Input(line), location, one_line(line).replace("\t", " "), {"src": line})


class TextOutput(OutputFormat):
    """The best output, one line for each input."""

    def __init__(self, config: Choice, generator: Generator) -> None:
        pass

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [record.byte_order_mark + LINE_END.sub(" ", output.hyp)]


class View(OutputFormat):
    """A task's own view of an output, on any number of lines."""

    def __init__(self, show: Callable[[str], str]) -> None:
        self.show = show

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [self.show(output.hyp) if output.hyp else ""]

    def n_lines(self, nbest: int) -> int:
        return 0


def input_format(config: GenerateConfig, registry: Registry) -> InputFormat:
    """The format that `input_format` names; with auto, the one of `format` if it exists and the input is in it."""
    name, known = config.input_format, registry.names("input_format")
    if name not in ("auto", *known):
        hint = did_you_mean(name, ["auto", *known, *registry.names("document_format")])
        raise ConfigError(f"input_format={name}: no such format.{hint}{registry.absent_hint()}")
    if name == "auto":
        built = _input(config.format if config.format in known else "text", registry)
        return built if built.fits(config.input) else _input("text", registry)
    return _input(name, registry)


def _input(name: str, registry: Registry) -> InputFormat:
    built: InputFormat = registry.build_default("input_format", name)
    return built


def output_format(
    config: GenerateConfig, generator: Generator, registry: Registry, line_counting_option: str = ""
) -> OutputFormat:
    """The format that `format` names: a registered one, or a view of the task.

    ConfigError if there is none, if it writes only the best of several outputs, or if it writes any number of lines but
    `line_counting_option`, an option, needs the same number for each output.
    """
    name, task, registered = config.format, generator.task, registry.names("output_format")
    if name not in (*task.views, *registered):
        hint = did_you_mean(name, [*task.views, *registered])
        raise ConfigError(f"format={name}: no such format of s2s-generate or of task={task.config.name}.{hint}")
    if name in registered:
        built: OutputFormat = registry.build_default("output_format", name, generator)
    else:
        built = View(task.views[name])
    if config.nbest > 1 and not built.writes_nbest:
        raise ConfigError(f"nbest={config.nbest} needs format=tsv or jsonl: {name} has the best alone")
    if line_counting_option and not built.n_lines(config.nbest):
        raise ConfigError(
            f"{line_counting_option} counts lines, of which format={name} has any number; give format=text"
        )
    return built
