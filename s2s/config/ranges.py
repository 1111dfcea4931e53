"""Ranges of numbers in a configuration, and one form of error for a number outside."""

from __future__ import annotations

__all__ = ["SHARE", "THREADS", "Range", "above", "at_least", "check_all_used", "check_ranges"]

import math
from dataclasses import dataclass, fields
from typing import Any

from s2s.errors import ConfigError


@dataclass(frozen=True)
class Range:
    """Finite numbers between two bounds, which are included unless excluded by `without_…`."""

    low: float = -math.inf
    high: float = math.inf
    without_low: bool = False
    without_high: bool = False

    def __contains__(self, value: float) -> bool:
        over = self.low < value if self.without_low else self.low <= value
        under = value < self.high if self.without_high else value <= self.high
        return over and under and math.isfinite(value)

    def __str__(self) -> str:
        words = [f"{'above' if self.without_low else 'at least'} {self.low:g}"] if self.low > -math.inf else []
        if self.high < math.inf:
            words.append(f"{'less than' if self.without_high else 'at most'} {self.high:g}")
        return " and ".join(words) or "a finite number"


def at_least(low: float, most: float = math.inf) -> Range:
    """From `low` to `most`, both included."""
    return Range(low, most)


def above(low: float) -> Range:
    """More than `low`."""
    return Range(low, without_low=True)


SHARE = Range(0, 1, without_high=True)
"""From 0 to below 1: a dropout probability, a decay."""
THREADS = at_least(0, 1024)
"""No machine can use more than 1024, and torch ends the process when it cannot start them."""


def check_ranges(section: str, config: object, **ranges: Range) -> None:
    """ConfigError for the first field whose number is outside its range; null is always allowed.

    So is auto, of words, for an option that may be one.
    """
    for name, allowed in ranges.items():
        value = getattr(config, name)
        is_word = isinstance(value, str)
        if value is None or value == "auto" or (not is_word and value in allowed):
            continue
        key = f"{section}.{name}" if section else name
        more = ", or auto" if is_word else "" if math.isfinite(value) else " and finite"
        raise ConfigError(f"{key}={value} must be {allowed}{more}")


def check_all_used(config: Any, option: str, needs: str, other: object, section: str = "") -> None:
    """ConfigError for an option that is not at its default, but has an effect only if the value `other` is set."""
    default = next(item.default for item in fields(config) if item.name == option)
    value = getattr(config, option)
    if value != default and not other:
        key = f"{section}.{option}" if section else option
        raise ConfigError(f"{key}={value} has no effect without {needs}; give that, too, or leave it out")
