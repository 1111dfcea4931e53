"""What a reference resolves to, alone and inside other values."""

from __future__ import annotations

import pytest

from harness.toy_plugins import toy_plugins
from s2s.compose import compose
from s2s.compose.references import MAX_CHARACTERS
from s2s.config import Config
from s2s.errors import ConfigError


def files(*arguments: str) -> object:
    """The value of the option that takes anything."""
    config = compose(Config, ["task=copy", "arch=wide", *arguments], toy_plugins()).config
    return config.task.files  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("${task.pair}", [1, 2]),
        ("['${seed}',2,x,null]", [1, 2, "x", None]),
        ("{a: ['${ seed }', 'n-${seed}'], b: '${task.limit}'}", {"a": [1, "n-1"], "b": None}),
        ("${seed}-${task.src}-${train.compile}-${task.limit}", "1-de-false-null"),
    ],
)
def test_references_are_replaced_wherever_they_stand(value: str, found: object) -> None:
    assert files(f"task.files={value}") == found


def test_no_reference_stands_in_a_key() -> None:
    with pytest.raises(ConfigError, match="is left over"):
        files("task.files={'${seed}': x}")


@pytest.mark.parametrize("value", ["['${task.pair}']", "{a: '${task.weights}'}", "x${task.names}"])
def test_a_list_or_mapping_stands_in_no_other_value(value: str) -> None:
    with pytest.raises(ConfigError, match=r"is a list or mapping, and cannot stand inside another value$"):
        files(f"task.files={value}")


def test_text_may_have_so_many_characters_with_its_references_replaced() -> None:
    n = MAX_CHARACTERS - 1
    assert files(f"task.src={'y' * n}", "task.files=x${task.src}") == "x" + "y" * n
    with pytest.raises(ConfigError, match=r"^task\.files: longer than 10000 characters with its references replaced$"):
        files(f"task.src={'y' * n}", "task.files=xx${task.src}")


def test_text_without_a_reference_is_as_long_as_it_was_given() -> None:
    long = "x" * (MAX_CHARACTERS + 1)
    assert files(f"task.files=[{long},'${{seed}}']") == [long, 1]
    assert files(f"task.src={long}", "task.files=['${task.src}']") == [long]
