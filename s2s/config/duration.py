"""Times as people write them, 90s, 30m, 1h30m, 2d, and as screens show them."""

from __future__ import annotations

__all__ = ["format_duration", "parse_duration"]

import re

from s2s.errors import ConfigError

SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))", re.ASCII)


def parse_duration(text: str, key: str) -> float:
    """Seconds in `text`, which the option `key` gave."""
    parts = _PARTS.findall(text.strip())
    if not parts or "".join(map("".join, parts)) != text.strip():
        raise ConfigError(f"{key}={text}: expected a time such as 90s, 30m, 2h or 1h30m")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= 365 * SECONDS["d"]:
        raise ConfigError(f"{key}={text}: give more than nothing, and at most a year")
    return seconds


def format_duration(seconds: float) -> str:
    """Days, hours, minutes and seconds: 05:41:10, 1d 05:41:10."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{f'{days}d ' if days else ''}{h:02}:{m:02}:{s:02}"
