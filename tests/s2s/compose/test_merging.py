"""Settings applied to the options of a command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.toy_plugins import refusal, toy_plugins
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class ServeConfig:
    """s2s-serve: a command that passes options on to another one."""

    run: str = ""
    task: Choice = field(default_factory=Choice, metadata={"may_stay_open": True})
    generate: dict[str, Any] = field(default_factory=dict, metadata={"takes_others": True})


def test_an_option_that_no_command_has_goes_where_others_are_taken() -> None:
    made = compose(ServeConfig, ["run=x", "beam=8", "quantization.bits=4", "generate.threads=1"], toy_plugins())
    assert made.config == ServeConfig(run="x", generate={"beam": 8, "quantization": {"bits": 4}, "threads": 1})
    assert made.origins["generate"] == "command line"


def test_an_option_of_another_command_is_not_taken() -> None:
    with pytest.raises(ConfigError, match=r"^seed: s2s-serve does not use it\.$"):
        compose(ServeConfig, ["seed=3"], toy_plugins())


@pytest.mark.parametrize("before", ["null", "''", "{}", "{a: 1, b: {d: 2}}"])
def test_an_entry_is_set_inside_the_value_of_an_option(before: str) -> None:
    """The value of another source stays as it was; nothing, or a variable of the shell that is empty, is no entry."""
    plugins = toy_plugins({("experiment", "x"): {"task": "copy", "arch": "wide"}})
    made = compose(Config, ["experiment=x", f"task.files={before}", "task.files.b.c=5"], plugins)
    kept = {"a": 1, "b": {"d": 2, "c": 5}} if "a" in before else {"b": {"c": 5}}
    assert made.config.task.files == kept  # type: ignore[attr-defined]


def test_an_entry_does_not_change_the_preset_that_it_is_set_over() -> None:
    files = {"a": {"b": 1}}
    plugins = toy_plugins({("task", "x"): {"name": "copy", "files": files}})
    made = compose(Config, ["task=x", "arch=wide", "task.files.a.c=2"], plugins)
    assert made.config.task.files == {"a": {"b": 1, "c": 2}}  # type: ignore[attr-defined]
    assert files == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("[1]", "task.files.a.b: task.files is one value, not a mapping"),
        ("x", "task.files.a.b: task.files is one value, not a mapping"),
        ("0", "task.files.a.b: task.files is one value, not a mapping"),
        ("{a: 1}", "task.files.a.b: 'a' is no mapping"),
    ],
)
def test_an_entry_is_not_set_inside_a_value_that_has_none(before: str, message: str) -> None:
    assert refusal(f"task.files={before}", "task.files.a.b=5") == message
