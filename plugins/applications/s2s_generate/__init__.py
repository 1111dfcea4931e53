"""The command s2s-generate, and its formats: plain text, tsv and jsonl. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("input_format", "text", Choice, "s2s_generate.formats:TextInput")
    registry.add("input_format", "tsv", Choice, "s2s_generate.input_formats:TsvInput")
    registry.add("input_format", "jsonl", Choice, "s2s_generate.input_formats:JsonlInput")
    registry.add("output_format", "text", Choice, "s2s_generate.formats:TextOutput")
    registry.add("output_format", "tsv", Choice, "s2s_generate.output_formats:TsvOutput")
    registry.add("output_format", "jsonl", Choice, "s2s_generate.output_formats:JsonlOutput")
