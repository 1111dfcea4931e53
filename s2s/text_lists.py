"""Lists of texts as programs have them: None and NaN, with which tables mark a missing text, are empty texts."""

from __future__ import annotations

__all__ = ["as_texts", "is_missing"]

from collections.abc import Iterable, Mapping
from typing import Any

from s2s.errors import DataError


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing text: None, or NaN, which is another than itself."""
    return value is None or (isinstance(value, float) and value != value)


def as_texts(values: Any, what: str) -> list[str]:
    """A list of texts from any iterable of them; `what` names one of them, such as "output", for errors.

    Raises DataError for a single text, and for a value that is none, by its number from 1.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise DataError(f"{what}s are a list of texts, not {type(values).__name__}")
    return [_as_text(value, f"{what} {number:,}") for number, value in enumerate(values, 1)]


def _as_text(value: Any, what: str) -> str:
    if is_missing(value):
        return ""
    if not isinstance(value, str):
        raise DataError(f"{what} is no text, but {type(value).__name__}")
    return value
