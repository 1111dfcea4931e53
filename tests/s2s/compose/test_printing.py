"""Configurations as YAML."""

from __future__ import annotations

from s2s.compose import to_yaml


def test_comments_stand_behind_the_longest_line_or_in_column_60() -> None:
    origins = {"a": "default", "b": "command line"}
    assert to_yaml({"a": 1, "b": "x" * 20}, origins) == (
        f"{'a: 1':23}  # default\nb: {'x' * 20}  # command line\n"  #
    )
    for n in (57, 58, 100):
        long = f"b: {'x' * n}"
        assert to_yaml({"a": 1, "b": "x" * n}, origins) == f"{'a: 1':60}  # default\n{long}  # command line\n"


def test_without_origins_nothing_follows_a_value() -> None:
    assert to_yaml({"a": {"b": 1, "c": {"d": "x" * 20}}, "e": None}) == (
        f"a:\n  b: 1\n  c:\n    d: {'x' * 20}\ne: null\n"  #
    )
    assert to_yaml({}) == to_yaml({}, {"a": "default"}) == ""
