"""Times as screens show them."""

from __future__ import annotations

import pytest

from s2s.config.duration import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (59.6, "00:01:00"), (3599, "00:59:59"), (86_399, "23:59:59"), (193_784, "2d 05:49:44")],
)
def test_a_time_is_shown_in_days_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
