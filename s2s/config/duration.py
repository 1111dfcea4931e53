"""Times as screens show them."""

from __future__ import annotations

__all__ = ["format_duration"]


def format_duration(seconds: float) -> str:
    """Days, hours, minutes and seconds: 05:41:10, 1d 05:41:10."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{f'{days}d ' if days else ''}{h:02}:{m:02}:{s:02}"
