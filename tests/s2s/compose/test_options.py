"""Options read off dataclasses, with the docstrings under their fields."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import pytest

import s2s.config
from harness.toy_plugins import BaseConfig, Colour, NarrowConfig, WideConfig, toy_plugins
from s2s.cli.documentation import describe, docs
from s2s.compose.composition import merge_groups
from s2s.compose.options import options_of, type_text
from s2s.errors import PluginError
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from s2s.registry import Choice


def test_the_docstring_under_a_field_is_its_documentation() -> None:
    assert docs(NarrowConfig) == {
        "name": "The registered entry.",
        "dropout": "Dropped outputs\nof each layer.",
        "width": "Width.",
    }


def test_inherited_fields_keep_their_documentation_unless_it_is_written_anew() -> None:
    assert docs(WideConfig)["dropout"] == docs(BaseConfig)["dropout"]
    assert docs(WideConfig)["d_model"] == "Width."


def test_a_class_without_source_has_no_documentation() -> None:
    made = dataclasses.make_dataclass("Made", [("x", int, 1)])
    assert docs(made) == {}
    assert describe(options_of(made), {}, "made") == "made\n  x = 1  [int]\n"


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (str | None, "str | null"),
        (Literal["a", "b"], "a | b"),
        (Literal["no"] | None, "'no' | null"),
        (list[str], "list[str]"),
        (dict[str, float], "dict[str, float]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Colour, "red | blue"),
        (Any, "any"),
    ],
    ids=str,
)
def test_a_type_reads_as_in_yaml(hint: Any, text: str) -> None:
    assert type_text(hint) == text


def test_options_stand_in_order_with_those_of_sections_in_their_place() -> None:
    found = {option.key: option for option in options_of(WideConfig, "arch.")}
    assert list(found) == [f"arch.{n}" for n in ("name", "dropout", "d_model", "n_heads", "norm", "max_len")] + [
        "arch.encoder.n_layers"
    ]
    assert found["arch.encoder.n_layers"].default == 4, "the section's own default, not its class's"
    assert found["arch.max_len"].default == "${data.max_len}"


@dataclasses.dataclass(kw_only=True)
class Inner:
    """A section, one of whose options has no default."""

    needed: int
    width: int = 1


@dataclasses.dataclass(kw_only=True)
class WiderInner(Inner):
    """One with other defaults."""

    needed: int = 5
    width: int = 2


@dataclasses.dataclass(kw_only=True)
class Outer:
    """Sections with and without defaults of their own."""

    without: Inner
    made: Inner = dataclasses.field(default_factory=Inner)  # type: ignore[arg-type]
    wider: Inner = dataclasses.field(default_factory=WiderInner)
    names: list = dataclasses.field(default_factory=list)  # type: ignore[type-arg]


@dataclasses.dataclass(kw_only=True)
class Outermost:
    """A section of sections."""

    outer: Outer = dataclasses.field(
        default_factory=lambda: Outer(without=Inner(needed=7), made=Inner(needed=8, width=9), names=["a"])
    )


def test_the_default_of_an_option_is_that_of_its_section_where_it_has_one() -> None:
    none = dataclasses.MISSING
    own = {"without.needed": none, "without.width": 1, "made.needed": none, "made.width": 1}
    assert {o.key: o.default for o in options_of(Outer)} == {**own, "wider.needed": 5, "wider.width": 2, "names": []}
    given = {"without.needed": 7, "without.width": 1, "made.needed": 8, "made.width": 9}
    found = {o.key.removeprefix("outer."): o.default for o in options_of(Outermost)}
    assert found == {**given, "wider.needed": 5, "wider.width": 2, "names": ["a"]}


def test_lines_name_everything_about_an_option() -> None:
    merged = merge_groups(["arch"], ["arch=wide_big", "arch.norm=pre"], toy_plugins())
    values = {key: (value, merged.origin(key)) for key, (value, _) in merged.values.items()}
    text = describe([o for o in merged.options.values() if o.key.startswith("arch.")], values, "wide")
    assert text.splitlines()[:6] == [
        "wide",
        "  arch.name = wide  [str]  (default ''; command line)",
        "      The registered entry.",
        "  arch.dropout = 0.1  [float]",
        "      Dropped outputs of each layer.",
        "  arch.d_model = 1024  [int]  (default 512; preset arch=wide_big (plugin s2s))",
    ]
    assert "  arch.norm = pre  [pre | post]  (default post; command line)" in text


def test_types_that_are_not_imported_are_explained() -> None:
    source = "from dataclasses import dataclass\n@dataclass(kw_only=True)\nclass Broken:\n    x: 'Nowhere' = 1\n"
    space: dict[str, Any] = {"__name__": "broken"}
    exec(source, space)
    with pytest.raises(PluginError, match="not under TYPE_CHECKING"):
        list(options_of(space["Broken"]))


def shipped() -> list[type]:
    registry = load_plugins().registry
    own = [
        config
        for name in s2s.config.__all__
        if name.endswith("Config")
        for config in [registry.with_options(getattr(s2s.config, name))]
    ]
    return own + sorted({e.config for e in registry.entries.values()}, key=lambda c: c.__qualname__)


@pytest.mark.parametrize("config", shipped(), ids=lambda c: c.__name__)
def test_every_option_that_we_ship_is_documented(config: type[Choice]) -> None:
    missing = [option.key for option in options_of(config) if not docs(option.owner).get(option.field.name)]
    assert missing == []
