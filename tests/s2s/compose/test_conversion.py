"""YAML values against types: exactly what the type holds, or an error with a hint."""

from __future__ import annotations

import sys
from dataclasses import dataclass, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_origin
from unittest.mock import patch

import pytest

from s2s.compose import conversion
from s2s.compose.conversion import convert, entry_config
from s2s.compose.options import Option, options_of
from s2s.compose.yaml12 import read_value
from s2s.errors import ConfigError, PluginError
from s2s.registry import Choice, Entry


class Norm(Enum):
    """Names are what a user writes."""

    pre = 1
    post = 2


@dataclass(kw_only=True)
class Block:
    """A dataclass inside a list."""

    width: int
    norm: Norm = Norm.post

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width={self.width} must be at least 1")


def option(hint: Any) -> Option:
    return next(options_of(make_dataclass("Owner", [("x", hint)])))


def converted(text: str, hint: Any) -> Any:
    return convert(option(hint), read_value(text, "x"), "command line")


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("5", float, 5.0),
        ("010", str, "010"),
        ("5", str | int, 5),
        ("5", float | int, 5),
        ("1.5", int | str, "1.5"),
        ("5", float | str, 5.0),
        ("null", str | None, None),
        ("1e5", str | None, "1e5"),
        ("a", str | list[str], "a"),
        ("[1,b]", str | list[str], ["1", "b"]),
        ("auto", Literal["auto"] | int, "auto"),
        ("8", Literal["auto"] | int, 8),
        ("1", Literal["1", "2"], "1"),
        ("pre", Norm | None, Norm.pre),
        ("[pre,post]", tuple[Norm, ...], (Norm.pre, Norm.post)),
        ("[a,2]", tuple[str, int], ("a", 2)),
        ("[[1],[]]", list[list[int]], [[1], []]),
        ("{a: [b], c: []}", dict[str, list[Path]], {"a": [Path("b")], "c": []}),
        ("[{width: 3}, {width: 4, norm: pre}]", list[Block], [Block(width=3), Block(width=4, norm=Norm.pre)]),
        ("{a: [1, no, null]}", Any, {"a": [1, "no", None]}),
        ("[1, x]", list, [1, "x"]),
        ("[1_0,b]", Literal["auto"] | list[str], ["1_0", "b"]),
    ],
    ids=str,
)
def test_a_value_takes_the_type_that_fits_best(text: str, hint: Any, value: object) -> None:
    found = converted(text, hint)
    assert repr(found) == repr(value), "types, too: 1 is not 1.0"


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("5", int, 5),
        ("x", str, "x"),
        ("true", bool | None, True),
        ("auto", int | Literal["auto", "off"], "auto"),
        ("[a, b]", str | list[str], ["a", "b"]),
        ("{a: 1, b: [x, null, {c: 2.5}]}", dict[str, Any], {"a": 1, "b": ["x", None, {"c": 2.5}]}),
        ("[1, no, {a: []}]", Any, [1, "no", {"a": []}]),
        ("[[1], []]", list[list[float]], [[1.0], []]),
    ],
    ids=str,
)
def test_a_value_of_the_very_type_is_taken_at_once(
    text: str, hint: Any, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run has a hundred of them, and omegaconf would take a millisecond for each."""
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    assert repr(converted(text, hint)) == repr(value)


SIMPLE: list[Any] = [int, float, str, bool, Any, None, Path, Norm, Block, Literal["pre", "b"], list, dict, str | int]
HINTS = [
    *SIMPLE,
    *(list[inside] for inside in [*SIMPLE, list[int], dict[str, float]]),
    # omegaconf refuses every value of dict[str, Literal[…]].
    *(dict[str, inside] for inside in [*SIMPLE, list[str]] if get_origin(inside) is not Literal),
    *(dict[int, str], dict[Any, int], tuple[str, ...], list[str] | None, str | list[str], list[str] | dict[str, int]),
]
LEAVES = [None, True, 1, 2.0, "a", "1", "???", "pre"]
VALUES = [
    *LEAVES,
    *([leaf] for leaf in LEAVES),
    *({"k": leaf} for leaf in LEAVES),
    *([], {}, ["a", 1], [["???"]], [[1], []], {"1": "a"}, {"k": ["a"]}, [{"k": 1.5}], [{"k": {"k": ["???"]}}]),
]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_a_value_that_has_its_type_is_what_omegaconf_makes_of_it(hint: Any) -> None:
    def outcome(value: Any) -> str:
        try:
            return repr(convert(option(hint), value, "command line"))
        except (ConfigError, PluginError) as error:
            return str(error)

    found = [outcome(value) for value in VALUES]
    with patch.object(conversion, "_fits", return_value=False):
        assert found == [outcome(value) for value in VALUES]


@pytest.mark.parametrize("hint", [str, Any, list[str], dict[str, Any], list[Any]], ids=str)
def test_omegaconf_never_reads_the_environment_for_a_value(hint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of an input may come from anyone, and are converted without `references` before."""
    monkeypatch.setenv("SECRET", "x")
    texts: dict[Any, Any] = {list: ["${oc.env:SECRET}"], dict: {"a": ["${oc.env:SECRET}"]}}
    value = texts.get(get_origin(hint), "${oc.env:SECRET}")
    assert convert(option(hint), value, "command line") == value


@pytest.mark.parametrize("hint", [Path, tuple[str, ...], list[Path]], ids=str)
def test_what_omegaconf_converts_has_no_reference(hint: Any) -> None:
    value: Any = "${oc.env:HOME}" if hint is Path else ["${oc.env:HOME}"]
    with pytest.raises(ConfigError, match=r"'\$\{' cannot stand in it"):
        convert(option(hint), value, "command line")


@pytest.mark.parametrize(
    ("text", "hint", "hinted"),
    [
        ("true", int, ""),
        ("true", int | str, "If the word is meant, quote it: '\"true\"'."),
        ("yes", bool | None, "Write true or false."),
        ("1", bool, ""),
        ("1e5", int, "Write 100_000 for 1e5."),
        ("010", int | None, "A number is written without leading zeros."),
        ("null", int, ""),
        ("[[1]]", list[int], ""),
        ("[1]", tuple[int, int], "TupleConfig length 1 does not match type hint length 2"),
        ("ab", list[str], ""),
        ("pro", Norm, ""),
        ("pro", Literal["pre", "post"], "Did you mean 'pre'?"),
        ("[{widht: 3}]", list[Block], "Key 'widht' not in 'Block'. Did you mean: 'width'?"),
        ("[{width: 0}]", list[Block], "width=0 must be at least 1"),
        ("[{}]", list[Block], "Structured config of type `Block` has missing mandatory value: width"),
        ('["???"]', list[str], "'???' stands for a missing value."),
    ],
    ids=str,
)
def test_what_does_not_fit_is_an_error_with_a_hint(text: str, hint: Any, hinted: str) -> None:
    with pytest.raises(ConfigError, match=r"^x=.*: expected .*; it has no default\.") as caught:
        converted(text, hint)
    assert str(caught.value).endswith(hinted or "no default.")


@pytest.mark.parametrize("hint", [set[int], complex], ids=str)
def test_a_type_that_yaml_has_no_value_for_is_the_plugins_mistake(hint: Any) -> None:
    with pytest.raises(PluginError, match=r"^Owner\.x: Unexpected type annotation: [^\n]*$"):
        convert(option(hint), [1], "command line")


@pytest.mark.parametrize(
    ("text", "hint", "shown"),
    [("1_000", bool, "1_000"), ("[1,[2]]", list[int], "[1, [2]]"), (f"[{'7,' * 150}x]", list[int], f"[{'7, ' * 66}7")],
    ids=["as spelt", "a list", "the first 200 characters"],
)
def test_the_value_is_shown_as_it_was_given(text: str, hint: Any, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        converted(text, hint)
    assert str(caught.value).startswith(f"x={shown}: expected ")


@dataclass(kw_only=True)
class Scored(Choice):
    """An entry that another's option names."""

    alpha: float = 0.6
    samples: int = 3
    lang: str = ""


ENTRY = Entry("metric", "scored", Scored, lambda config: config, "test")


def test_an_entry_named_in_an_option_takes_its_options() -> None:
    assert entry_config(ENTRY, {"samples": 5, "lang": "de"}, "metrics.scored") == Scored(samples=5, lang="de")
    assert entry_config(ENTRY, {}, "metrics.scored") == Scored()
    with pytest.raises(ConfigError, match=r"samples=x: expected int; the default is 3\.$"):
        entry_config(ENTRY, {"samples": "x"}, "metrics.scored")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sampels", " Did you mean 'samples'?"),
        ("names", " Did you mean 'samples'?"),
        ("xyzzy", " Known: alpha, lang, samples."),
        ("lenpen", " Did you mean 'alpha'?"),
        ("lr", " Known: alpha, lang, samples."),
        ("tgt_lang", " Did you mean 'lang'?"),
    ],
)
def test_an_option_that_an_entry_lacks_is_named_with_one_that_it_has(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        entry_config(ENTRY, {name: 1}, "metrics.scored")
    assert str(caught.value) == f"metrics.scored.{name}: no such option.{hint}"
