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
    from s2s.task import Task


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


def output_format(config: GenerateConfig, task: Task) -> OutputFormat:
    """The one that `format` names; ConfigError if there is none, or if a view, of any length, is to be resumed."""
    name = config.format
    if name not in OUTPUT_FORMATS and name not in task.views:
        hint = did_you_mean(name, [*OUTPUT_FORMATS, *task.views])
        raise ConfigError(f"format={name}: no such format of s2s-generate or of task={task.config.name}.{hint}")
    if name in OUTPUT_FORMATS:
        return JsonlOutput(config.fields) if name == "jsonl" else OUTPUT_FORMATS[name]
    if config.resume:
        raise ConfigError(f"resume=true counts lines, of which format={name} has any number; give format=text")
    return View(task.views[name])
