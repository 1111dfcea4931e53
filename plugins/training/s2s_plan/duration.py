"""Times as people write them: 90s, 30m, 1h30m, 2d."""

from __future__ import annotations

__all__ = ["parse_duration"]

import re

from s2s import ConfigError

SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))", re.ASCII)


def parse_duration(text: str, key: str) -> float:
    """Seconds in `text`, which the option `key` gave."""
    parts = _PARTS.findall(text.strip())
    if not parts or "".join(map("".join, parts)) != text.strip():
        raise ConfigError(f"{key}={text}: expected a time such as 90s, 30m, 2h or 1h30m")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= 365 * SECONDS["d"]:
        raise ConfigError(f"{key}={text}: it must be more than 0 and at most a year")
    return seconds
