"""YAML 1.2 scalars: what is refused, and that what is written is read back the same."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from s2s.compose import yaml12
from s2s.compose.yaml12 import MAX_BYTES, MAX_DEPTH, plain, read_file, read_value, scalar, to_text
from s2s.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("off", "off"),
        ("Yes", "Yes"),
        ("True", "True"),
        ("y", "y"),
        ("0", 0),
        ("-7", -7),
        ("1_000", 1000),
        ("010", "010"),
        ("00", "00"),
        ("0x10", "0x10"),
        ("0o7", "0o7"),
        ("1:30", "1:30"),
        ("1e-3", 0.001),
        ("1E5", 1e5),
        (".5", 0.5),
        ("2.", 2.0),
        ("010.5", "010.5"),
        ("-.inf", float("-inf")),
        (".nan", ".nan"),
        ("2020-01-01", "2020-01-01"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_a_plain_scalar_is_read_by_yaml_1_2(text: str, value: object) -> None:
    assert scalar(text) == value
    assert isinstance(scalar(text), type(value))


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", ":1: anchors and aliases"),
        ("a: 1\nb: *x\n", ":2: anchors and aliases"),
        ("a: !!str no\n", ":1: tags"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1: tags"),
        ("a: !x {}\n", ":1: tags"),
        ("a: 1\nb: 2\na: 3\n", ":3: 'a' stands here twice"),
        ("a: {b: 1, b: 2}\n", "'b' stands here twice"),
        ("- 1\n", "expected `key: value` lines, got a list"),
        ("5\n", "expected `key: value` lines, got a number"),
        ("a: 1\n---\nb: 2\n", "a second document"),
        ("? [a]\n: 1\n", "a key must be text, not a list"),
        ("a: {name:x}\n", "name:x: write a blank after the colon, as in name: x"),
        ("true: 1\n", "a key must be text, not true or false; quote it"),
        ("a: [1\n", ":2: "),
        ("\ta: 1\n", ":1: "),
        ("a: 123456789012345678901\n", "an integer of more than 64 bits"),
        ("a: " + "[" * 200 + "]" * 200, "nested deeper than"),
        (b"a: \xff\n", "not UTF-8 at byte 3"),
        ("a: \x00\n", "special characters are not allowed"),
        ("a: \ud800\n", "not UTF-8"),
        ('a: "\\UFFFFFFFF"\n', "x.yaml:1"),
        ("#" * (MAX_BYTES + 1), "larger than 256 KiB"),
        ("#" + "é" * MAX_BYTES, "larger than 256 KiB"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_a_configuration_does_not_need_is_refused_in_one_line(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_file(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\ufeff", "{}\n", "null\n"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, text: str) -> None:
    assert read_file(write(tmp_path, text)) == {}


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    assert read_file(write(tmp_path, "\ufeffa: no\r\nb: [010, 1]\r\n")) == {"a": "no", "b": ["010", 1]}


@pytest.mark.parametrize(
    "bomb",
    [
        "a: " + "[" * 120_000,
        "a: " + "{a: " * 60_000,
        "- " * 120_000,
        "a: [" + "x," * 20_000 + "",
        "a: " + "9" * 200_000,
        "? " * 100_000,
    ],
    ids=["lists", "mappings", "dashes", "wide", "digits", "keys"],
)
def test_bombs_of_depth_and_size_are_harmless(tmp_path: Path, bomb: str) -> None:
    start = time.process_time()
    with pytest.raises(ConfigError):
        read_file(write(tmp_path, bomb))
    assert time.process_time() - start < 5


def test_text_that_begins_like_yaml_is_text_on_the_command_line() -> None:
    for text in ("a: b", "#x", "*.txt", "&a", "!b", "- a", "> x", "| y", "? z", "@a", "%b", "a #b", "`x`"):
        assert read_value(text, "key") == text


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_integers_have_63_bits_and_30_characters(sign: str) -> None:
    assert scalar(f"{sign}{2**63 - 1}") == int(f"{sign}{2**63 - 1}")
    for text in (f"{sign}{2**63}", f"{sign}{2**63 + 1}"):
        with pytest.raises(ConfigError, match="more than 64 bits"):
            scalar(text)
    longest = f"{sign}1{'_' * 27}10"[:30]
    assert scalar(longest) == int(longest.replace("_", ""))
    with pytest.raises(ConfigError, match="more than 64 bits"):
        scalar(f"{sign}1{'_' * 27}100")


@pytest.mark.parametrize("kind", ["[]", "{a: }"], ids=["lists", "mappings"])
def test_configurations_are_as_deep_as_they_may_be_and_no_deeper(tmp_path: Path, kind: str) -> None:
    def nested(depth: int) -> str:
        return f"a: {kind[:-1] * depth}{kind[-1] * depth}\n"

    assert read_file(write(tmp_path, nested(MAX_DEPTH if kind == "[]" else MAX_DEPTH - 1)))
    assert read_file(write(tmp_path, "a: [" + "[[]], " * 3 * MAX_DEPTH + "]\n")), "neighbours are not deep"
    with pytest.raises(ConfigError, match="nested deeper than 32"):
        read_file(write(tmp_path, nested(MAX_DEPTH + 1)))


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    text = "a: 1\n"
    assert read_file(write(tmp_path, text + "#" * (MAX_BYTES - len(text)))) == {"a": 1}


@pytest.mark.parametrize("char", ["\\ud800", "\\udfff", "\\0"])
def test_what_no_file_can_hold_is_refused_also_as_an_escape(char: str) -> None:
    with pytest.raises(ConfigError, match="half a character"):
        read_value(f'"a{char}"', "key")
    assert read_value('"\\ud7ff\\ue000"', "key") == "\ud7ff\ue000"


class Norm(Enum):
    """Its names are what is written."""

    pre = 1


@dataclass
class Block:
    """A dataclass in a list."""

    width: int
    folder: Path


class Wide(int):
    """A number of a kind of its own."""


def test_what_yaml_cannot_hold_is_written_in_plain_values() -> None:
    value = {Path("a"): (Norm.pre, {Wide(3)}, frozenset(), [Block(2, Path("b/c"))], "d", None, 1.5, True)}
    assert repr(plain(value)) == repr({"a": ["pre", [3], [], [{"width": 2, "folder": "b/c"}], "d", None, 1.5, True]})
    assert plain(Block) is Block, "what it does not know stays as it is"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "abc"),
        ("é", "é"),
        ("", "''"),
        ("~", "'~'"),
        ("no", "'no'"),
        ("true", "'true'"),
        ("5", "'5'"),
        ("010", "'010'"),
        ("0x1", "'0x1'"),
        ("1e5", "'1e5'"),
        ("9" * 40, f"'{'9' * 40}'"),
        ("=", '"="'),
    ],
)
def test_text_is_quoted_where_it_would_be_read_as_something_else(value: str, text: str) -> None:
    assert to_text(value) == text


def test_a_value_is_one_line_however_long_and_deep() -> None:
    long = "x y " * 50 + "z"
    assert to_text({"a": [long, {"b": [1, []]}], "é": {}}) == f"{{a: [{long}, {{b: [1, []]}}], é: {{}}}}"


TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.sampled_from(["no", "010", "1e5", "~", "a: b", "# x", "- ", "\\", "'", '"', "\u2028", "1_0", "???"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300)
@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: object) -> None:
    text = to_text({"a": value})
    assert "\n" not in text
    read = plain(read_value(text, "key"))
    assert read == {"a": value}
    assert repr(read) == repr({"a": value}), "types, too: 1 is not 1.0, nor true"


@settings(max_examples=100)
@given(st.text())
def test_other_readers_of_yaml_take_text_for_text(value: str) -> None:
    assert yaml.safe_load(to_text({"a": value})) == {"a": value}


def test_a_file_that_is_read_twice_gives_two_trees(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: {b: [1_0]}\n")
    first = read_file(tmp_path / "a.yaml")
    assert first["a"]["b"][0].text == "1_0"
    first["a"]["b"].append(2)
    second = read_file(tmp_path / "a.yaml")
    assert (second, second["a"]["b"][0].text) == ({"a": {"b": [10]}}, "1_0")
    (tmp_path / "a.yaml").write_text("a: {b: [11]}\n")
    assert read_file(tmp_path / "a.yaml") == {"a": {"b": [11]}}


@settings(max_examples=300, deadline=None)
@given(st.text("ab:-[]{}'\"#, \n\t&*!|>%@`0.1\\?é~", max_size=24))
def test_libyaml_reads_what_pyyamls_own_parser_reads(text: str) -> None:
    try:
        expected = yaml12._Tree(text, yaml.SafeLoader).read()
    except (yaml12._RefusedError, yaml.YAMLError, ValueError):
        return
    assert repr(yaml12._Tree(text, yaml12._FAST).read()) == repr(expected)
