"""The formats of s2s-generate: how a line becomes an input, and an input with its output becomes lines.

Plain text is here; all others are registered in the groups `input_format` and `output_format`.
"""

from __future__ import annotations

__all__ = ["InputFormat", "OutputFormat", "Record", "input_format", "one_line", "output_format"]

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError, did_you_mean
from s2s.generation.candidates import Input

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.config import GenerateConfig
    from s2s.generation.candidates import Output
    from s2s.generation.generator import Generator
    from s2s.registry import Registry


@dataclass(frozen=True)
class Record:
    """One line of the input."""

    given: Input
    location: str
    """File and line, for errors"""
    columns: str
    """The input as the first columns of a tsv line"""
    fields: dict[str, Any] | None
    """The input as a JSON object; None for an empty line of a jsonl file, whose output line is empty"""


class InputFormat(ABC):
    """How lines are read."""

    @abstractmethod
    def read(self, line: str, location: str) -> Record:
        """The input in a line; a DataError names the location."""

    def fits(self, path: str) -> bool:
        """With input_format=auto: whether this file is in the format that outputs have; else it is read as text."""
        return True


class OutputFormat(ABC):
    """How outputs are written."""

    @abstractmethod
    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """The lines to write for an input."""

    def n_lines(self, nbest: int) -> int:
        """Lines per input, the same for every input, so that they can be counted; 0: any number."""
        return 1


class TextInput(InputFormat):
    """The line is the input."""

    def read(self, line: str, location: str) -> Record:
        """All of it."""
        return Record(Input(line), location, line, {"src": line})


class TextOutput(OutputFormat):
    """The best output, one line for each input."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """Its text."""
        return [one_line(output.hyp)]


class View(OutputFormat):
    """A task's own way to show an output, on any number of lines."""

    def __init__(self, show: Callable[[str], str]) -> None:
        self.show = show

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """Empty for an empty output."""
        return [self.show(output.hyp) if output.hyp else ""]

    def n_lines(self, nbest: int) -> int:
        """Any number."""
        return 0


def one_line(text: str) -> str:
    """Line ends become spaces: one output is one line."""
    return re.sub(r"[\r\n]+", " ", text)


def input_format(config: GenerateConfig, registry: Registry) -> InputFormat:
    """The one that `input_format` names; with auto, that of `format` if there is one and the input is in it."""
    name, registered = config.input_format, registry.names("input_format")
    if name not in ("auto", "text", *registered):
        hint = did_you_mean(name, ["auto", "text", *registered])
        raise ConfigError(f"input_format={name}: no such format.{hint}{registry.absent()}")
    if name == "text" or (name == "auto" and config.format not in registered):
        return TextInput()
    entry = registry.get("input_format", config.format if name == "auto" else name)
    built: InputFormat = entry.build(entry.config(name=entry.name))
    return built if name != "auto" or built.fits(config.input) else TextInput()


def output_format(config: GenerateConfig, generator: Generator, registry: Registry) -> OutputFormat:
    """The one that `format` names: text, a registered one, or a view of the task.

    ConfigError if there is none, or if one that writes any number of lines is to be resumed.
    """
    name, task, registered = config.format, generator.task, registry.names("output_format")
    if name not in ("text", *task.views, *registered):
        hint = did_you_mean(name, ["text", *task.views, *registered])
        raise ConfigError(f"format={name}: no such format of s2s-generate or of task={task.config.name}.{hint}")
    if name == "text":
        built: OutputFormat = TextOutput()
    elif name in registered:
        entry = registry.get("output_format", name)
        built = entry.build(entry.config(name=name), generator)
    else:
        built = View(task.views[name])
    if config.resume and not built.n_lines(config.nbest):
        raise ConfigError(f"resume=true counts lines, of which format={name} has any number; give format=text")
    return built
