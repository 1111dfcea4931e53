"""Formats of s2s-generate beside plain text: tsv and jsonl. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("input_format", "tsv", Choice, "s2s_formats.reading:TsvInput")
    registry.add("input_format", "jsonl", Choice, "s2s_formats.reading:JsonlInput")
    registry.add("output_format", "tsv", Choice, "s2s_formats.writing:TsvOutput")
    registry.add("output_format", "jsonl", Choice, "s2s_formats.writing:JsonlOutput")
