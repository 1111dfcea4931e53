"""What an input has beside its text: the fields that its task declares, checked and in their types."""

from __future__ import annotations

__all__ = ["INPUT_TYPES", "AnyInput", "InputFields", "as_input"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from s2s.compose import options_of
from s2s.compose.conversion import convert
from s2s.errors import ConfigError, DataError, did_you_mean
from s2s.generation.candidates import Input
from s2s.task import Example

if TYPE_CHECKING:
    from s2s.task import Task


AnyInput = Input | Example | Mapping[str, Any] | str
"""A text, alone or in a mapping as `src`; or an example, whose source it is"""
INPUT_TYPES = (Input, Example, Mapping, str)
"""The types of one input"""


class InputFields:
    """Reads the fields of inputs."""

    def __init__(self, task: Task, defaults: Mapping[str, Any]) -> None:
        """defaults: fields of all inputs that do not have them themselves."""
        self.task, self.defaults, self.config = task, defaults, task.fields
        self.options = {option.field.name: option for option in options_of(task.fields)} if task.fields else {}

    def __call__(self, one: Input) -> dict[str, Any]:
        """All fields of the task; raises DataError for others, for a wrong value, and for one that is missing."""
        for name in (*self.defaults, *one.fields):
            if name not in self.options:
                hint = did_you_mean(name, self.options)
                raise DataError(f"{name}: task={self.task.config.name} reads no such field of an input.{hint}")
        if self.config is None:
            return {}
        recorded = {name: value for name, value in one.record.items() if name in self.options}
        values = {**self.defaults, **recorded, **one.fields}
        for name, option in self.options.items():
            if option.required and name not in values:
                hint = did_you_mean(name, one.record)
                raise DataError(f"{name} is missing: task={self.task.config.name} reads it of every input.{hint}")
        try:
            config = self.config(**{name: convert(self.options[name], value, "") for name, value in values.items()})
        except ConfigError as error:
            raise DataError(str(error)) from None
        return {name: getattr(config, name) for name in self.options}


def as_input(one: AnyInput) -> Input:
    """An input from its text, from an example, or from a mapping with `src`; raises DataError for another value."""
    match one:
        case Input():
            return one
        case Example():
            return Input(one.src, record=one.fields)
        case str():
            return Input(one)
        case Mapping():
            return _from_mapping(dict(one))
    raise DataError(f"an input is a text, or a mapping with its text as 'src', not {type(one).__name__}")


def _from_mapping(values: dict[str, Any]) -> Input:
    src, prefix, phrases = values.pop("src", None), values.pop("prefix", ""), values.pop("phrases", ())
    if not isinstance(src, str):
        raise DataError(f"an input is a text, or a mapping with its text as 'src', not {str(values)[:60]}")
    return Input(src, prefix, tuple(phrases), values)
