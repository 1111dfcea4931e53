"""The command s2s-generate, and plain text as its format. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("input_format", "text", Choice, "s2s_generate.formats:TextInput")
    registry.add("output_format", "text", Choice, "s2s_generate.formats:TextOutput")
