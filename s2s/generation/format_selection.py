"""Which formats s2s-generate reads and writes, from its options and its input."""

from __future__ import annotations

__all__ = ["input_format", "output_format"]

from typing import TYPE_CHECKING

from s2s.errors import ConfigError, did_you_mean
from s2s.generation.formats import INPUT_FORMATS, OUTPUT_FORMATS, JsonlOutput, View
from s2s.generation.input_lines import is_stream, lines_of

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.generation.formats import InputFormat, OutputFormat
    from s2s.generation.generator import Generator
    from s2s.registry import Registry


def input_format(config: GenerateConfig) -> InputFormat:
    """The one that `input_format` names; with auto, by `format` and the input itself."""
    if config.input_format != "auto":
        return INPUT_FORMATS[config.input_format]
    if config.format == "tsv" or (config.format == "jsonl" and _is_jsonl(config.input)):
        return INPUT_FORMATS[config.format]
    return INPUT_FORMATS["text"]


def _is_jsonl(path: str) -> bool:
    """Whether a file holds JSON, by its name or its first line with text; a pipe does."""
    if path == "-" or is_stream(path) or path.removesuffix(".gz").endswith((".jsonl", ".json")):
        return True
    first = next((line for line in lines_of(path) if isinstance(line, str) and line.strip()), "{")
    return first.lstrip().startswith("{")


def output_format(config: GenerateConfig, generator: Generator, registry: Registry) -> OutputFormat:
    """The one that `format` names: ours, a view of the task, or what a plugin has registered.

    ConfigError if there is none, or if one that writes any number of lines is to be resumed.
    """
    name, task = config.format, generator.task
    if name in OUTPUT_FORMATS:
        return JsonlOutput(config.fields) if name == "jsonl" else OUTPUT_FORMATS[name]
    registered = registry.names("output_format")
    if name not in task.views and name not in registered:
        hint = did_you_mean(name, [*OUTPUT_FORMATS, *task.views, *registered])
        raise ConfigError(f"format={name}: no such format of s2s-generate or of task={task.config.name}.{hint}")
    if config.resume:
        raise ConfigError(f"resume=true counts lines, of which format={name} has any number; give format=text")
    if name in task.views:
        return View(task.views[name])
    entry = registry.get("output_format", name)
    built: OutputFormat = entry.build(entry.config(), generator)
    return built
