"""Patterns of the module `regex`, whose import and compilation take longer than to read a line that needs neither."""

from __future__ import annotations

__all__ = ["LazyPattern"]

from typing import Any


class LazyPattern:
    """A compiled pattern, with its methods and attributes, that is compiled when the first of them is used."""

    def __init__(self, pattern: str) -> None:
        """pattern: with its flags, such as (?V1), at its beginning."""
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        import regex

        found = getattr(regex.compile(self.pattern), name)  # `regex` remembers what it has compiled
        setattr(self, name, found)  # from now on found without this method
        return found
