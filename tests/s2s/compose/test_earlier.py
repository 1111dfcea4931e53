"""Options that are newer than a run do what the version did that began it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from s2s.compose.composition import ComposedConfig
from s2s.compose.earlier import as_recorded, earlier_settings, with_earlier
from s2s.config import Mark
from s2s.registry import Choice, Registry


@dataclass(kw_only=True)
class Pieces(Choice):
    """A kind of tokens."""

    size: int = 8
    """A number."""
    clean: bool = field(default=True, metadata=Mark.earlier(False))
    """Newer."""


@dataclass(kw_only=True)
class Words(Choice):
    """A task."""

    kind: Any = field(default="pieces", metadata={"names": "tokenizer"})
    """Names an entry."""
    share: float = field(default=0.5, metadata=Mark.earlier(0.0))
    """Newer."""


@dataclass(kw_only=True)
class Several(Choice):
    """Tasks in a task."""

    tasks: dict[str, Any] = field(default_factory=dict, metadata={"names": "task"})
    """Names entries."""


@pytest.fixture
def registry() -> Registry:
    one = Registry()
    one.add("tokenizer", "pieces", Pieces, dict)
    one.task("words", Words, dict)
    one.task("several", Several, dict)
    return one


OLD = {"name": "pieces", "clean": False}
COMPLETE = {"name": "words", "kind": OLD, "share": 1.0}


@pytest.mark.parametrize(
    ("recorded", "earlier"),
    [
        ({"name": "words", "kind": "pieces"}, {"kind": OLD, "share": 0.0}),
        ({"name": "words", "kind": {"name": "pieces", "size": 9}}, {"kind": {**OLD, "size": 9}, "share": 0.0}),
        ({"name": "words", "kind": {"name": "pieces", "clean": True}, "share": 0.1}, {}),
        ({"name": "words", "kind": "strange", "share": 0.5}, {}),
        (
            {"name": "several", "tasks": {"a": {"name": "words"}, "b": COMPLETE}},
            {"tasks": {"a": {"name": "words", "kind": OLD, "share": 0.0}, "b": COMPLETE}},
        ),
        ({"name": "strange"}, {}),
    ],
)
def test_what_a_record_lacks_is_as_before(registry: Registry, recorded: Any, earlier: dict[str, Any]) -> None:
    settings = earlier_settings({"seed": 1, "task": recorded}, registry, Run)
    assert {setting.key: setting.value for setting in settings} == {("task", key): v for key, v in earlier.items()}


@dataclass
class Section:
    """Options that every run has."""

    size: int = 3
    """A number."""
    strict: bool = field(default=True, metadata=Mark.earlier(False))
    """Newer."""


@dataclass
class Run:
    """A configuration."""

    task: Words
    data: Section = field(default_factory=Section)


def continued(registry: Registry, recorded: dict[str, Any], now: Words, **explicit: Any) -> Words:
    composed = ComposedConfig(Run(now), {}, {"task": {"name": "words", **explicit}})
    return with_earlier(composed, {"task": {"name": "words", **recorded}}, registry).config.task


def test_a_command_continues_what_a_run_began_with(registry: Registry) -> None:
    new = Words(name="words")
    assert continued(registry, {"kind": "pieces"}, new) == Words(name="words", kind=OLD, share=0.0)
    assert continued(registry, {"kind": "pieces", "share": 0.5}, new) == Words(name="words", kind=OLD)
    assert continued(registry, {"kind": {**OLD}, "share": 0.5}, new) == new


def test_what_the_command_sets_stays_and_so_differs(registry: Registry) -> None:
    assert continued(registry, {}, Words(name="words", share=0.5), share=0.5).share == 0.5
    chosen = {"name": "pieces", "clean": True}
    assert continued(registry, {"kind": "pieces"}, Words(name="words", kind=chosen)).kind == chosen


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        ("pieces", {"name": "pieces", "clean": True}),
        (OLD, "pieces"),
        ({**OLD, "size": 9}, {"name": "pieces", "size": 9}),
        ("strange", "strange"),
    ],
)
def test_a_choice_is_recorded_as_by_earlier_versions_if_it_does_what_they_did(
    registry: Registry, value: Any, recorded: Any
) -> None:
    assert as_recorded(value, "tokenizer", registry) == recorded


@pytest.mark.parametrize(
    ("recorded", "explicit", "strict"),
    [({"size": 3}, {}, False), ({"size": 3, "strict": True}, {}, True), ({"size": 3}, {"strict": True}, True)],
)
def test_a_section_that_has_no_name_is_continued_alike(
    registry: Registry, recorded: dict[str, Any], explicit: dict[str, Any], strict: bool
) -> None:
    composed = ComposedConfig(Run(Words(name="words")), {}, {"data": explicit})
    assert with_earlier(composed, {"data": recorded}, registry).config.data == Section(strict=strict)
    earlier = {(one.key, one.value) for one in earlier_settings({"data": recorded}, registry, Run)}
    assert earlier == (set() if "strict" in recorded else {(("data", "strict"), False)})
