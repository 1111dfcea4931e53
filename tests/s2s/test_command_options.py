"""Options that plugins add to a command, and to a section of one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from s2s.command_options import AddedOptions, check_fits, command_config, with_added
from s2s.config.ranges import at_least, check_ranges
from s2s.errors import ConfigError, PluginError
from s2s.registry import Registry


@dataclass(kw_only=True)
class Section:
    """A section."""

    width: int = 1


@dataclass(kw_only=True)
class Command:
    """s2s-command: what it does."""

    first: int = 1
    """The first."""
    section: Section = field(default_factory=Section)

    def __post_init__(self) -> None:
        check_ranges("", self, first=at_least(0))

    @property
    def asked(self) -> list[str]:
        return []


@dataclass(kw_only=True)
class Second(Command):
    second: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("", self, second=at_least(self.first))

    @property
    def asked(self) -> list[str]:
        return ["second", *super().asked]


@dataclass(kw_only=True)
class Third(Command):
    third: list[int] = field(default_factory=list)
    of_no_instance = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.third and not self.first:
            raise ConfigError("third needs first")

    @property
    def asked(self) -> list[str]:
        return ["third", *super().asked]


@dataclass(kw_only=True)
class Deeper(Section):
    depth: int = 3


def added(*configs: type) -> list[AddedOptions]:
    return [AddedOptions(config, "test") for config in configs]


def test_options_are_in_one_place_in_the_order_in_which_they_were_added() -> None:
    whole = with_added(Command, added(Second, Third))
    assert [item.name for item in fields(whole)] == ["first", "section", "second", "third"]
    made: Any = whole(first=0, second=7)
    assert (made.first, made.second, made.third) == (0, 7, [])
    assert isinstance(made, Second)
    assert isinstance(made, Third)
    assert (whole.__doc__, whole.__qualname__) == (Command.__doc__, "Command")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"first": -1}, "first=-1"),
        ({"second": 0}, "second=0 must be at least 1"),
        ({"first": 0, "third": [1]}, "third "),
    ],
    ids=str,
)
def test_the_checks_of_all_are_made(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        with_added(Command, added(Second, Third))(**options)


def test_a_property_that_several_extend_has_them_all() -> None:
    assert with_added(Command, added(Second, Third))().asked == ["third", "second"]


def test_a_section_has_further_options_too() -> None:
    whole = with_added(Command, added(Deeper))
    assert whole().section == with_added(Section, added(Deeper))(width=1, depth=3)
    assert isinstance(whole().section, Deeper)
    with pytest.raises(TypeError, match="positional"):
        whole(Section())


def test_nothing_added_leaves_the_command_as_it_is() -> None:
    assert with_added(Command, []) is Command
    assert with_added(Section, added(Second)) is Section


def test_what_was_added_is_not_added_again() -> None:
    whole = with_added(Command, added(Second, Deeper))
    assert with_added(whole, added(Second, Deeper)) is whole
    assert with_added(Command, added(Second, Deeper)) is whole
    assert command_config(whole) is Command


@dataclass(kw_only=True)
class Again(Command):
    second: int = 5


@dataclass(kw_only=True)
class Redefined(Command):
    first: int = 5


@dataclass(kw_only=True)
class Unchecked(Command):
    fourth: int = 4

    def __post_init__(self) -> None:
        pass


class Undecorated(Command):
    fourth: int = 4


@dataclass(kw_only=True)
class Unresolved(Command):
    fourth: Nowhere = 4  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Again, r"^plugin 'mine': options Again: plugin 'other' has an option 'second' already; choose another name$"),
        (Redefined, "Command has an option 'first' already"),
        (Unchecked, r"its __post_init__ must call super\(\).__post_init__\(\)"),
        (Undecorated, "expected a @dataclass"),
        (Unresolved, "name 'Nowhere' is not defined; import types at the top"),
        (Command, "that derives from a command's, as GenerateConfig"),
        (5, "expected a @dataclass"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(config: Any, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        check_fits(AddedOptions(config, "mine"), [AddedOptions(Second, "other")])


def test_the_registry_says_who_added_what() -> None:
    registry = Registry()
    registry.plugin = "mine"
    registry.options(Third)
    assert [(one.plugin, one.names) for one in registry.added] == [("mine", ["third"])]
    assert registry.with_options(Command) is with_added(Command, added(Third))
