"""Times as people write them, to the bounds."""

from __future__ import annotations

import pytest

from s2s.errors import ConfigError
from s2s_plan import PlanConfig
from s2s_plan.run_length import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("1m", 60), ("1h", 3600), ("1d", 86_400), (" 1d2h3m4s ", 93_784), ("0.5s", 0.5), ("365d", 31_536_000)],
)
def test_a_time_is_the_sum_of_its_parts(text: str, seconds: float) -> None:
    assert parse_duration(text, "x") == seconds


@pytest.mark.parametrize("text", ["0s", "0h0m", "365d1s", "366d"])
def test_nothing_and_more_than_a_year_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^x={text}: it must be more than 0 and at most a year$"):
        parse_duration(text, "x")


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5s and more", "1h,30m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^x={text}: expected a time such as 90s, 30m, 2h or 1h30m$"):
        parse_duration(text, "x")


def test_a_budget_is_a_time_in_seconds() -> None:
    assert PlanConfig().budget_seconds is None
    assert PlanConfig(budget="2m").budget_seconds == 120
    with pytest.raises(ConfigError, match=r"^train\.budget=soon: expected a time such as 90s, 30m, 2h or 1h30m$"):
        PlanConfig(budget="soon")
