"""The settings of a source."""

from __future__ import annotations

import pytest

from harness.toy_plugins import toy_plugins
from s2s.compose import Setting, compose
from s2s.compose.settings import has_reference
from s2s.config import Config


@pytest.mark.parametrize(
    "value", ["${a}", "x${a}y", "${", ["x", "${a}"], ("${a}",), {"x": "${a}"}, {"${a}": 1}, {"x": [1, {"y": ["${a}"]}]}]
)
def test_a_reference_is_found_anywhere_in_a_value(value: object) -> None:
    assert has_reference(value) is True


@pytest.mark.parametrize(
    "value", ["", "$a", "{a}", [], ["x", 1], ("x",), {}, {"x": "$"}, {"x": [1, {"y": []}]}, 1, None]
)
def test_other_values_have_none(value: object) -> None:
    assert has_reference(value) is False


def test_what_a_recipe_sets_is_no_advice_and_waits_for_the_choice() -> None:
    recipe = [Setting(("arch", "dropout"), 0.7, "recipe")]
    made = compose(Config, ["task=copy", "arch=wide"], toy_plugins(), recipe=recipe)
    assert made.config.arch.dropout == 0.7  # type: ignore[attr-defined]
    assert made.origins["arch.dropout"] == "recipe"
