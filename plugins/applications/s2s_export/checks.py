"""Checks that all export formats share."""

from __future__ import annotations

__all__ = ["foreign_options"]

from typing import TYPE_CHECKING, Any

from s2s import ConfigError

if TYPE_CHECKING:
    from s2s_export import ExportInput


def foreign_options(model: ExportInput, form: str, hint: str = "") -> dict[str, Any]:
    """Options under their names in the format; raises ConfigError for what the format cannot express."""
    try:
        return model.format.write_options(model.arch)
    except ConfigError as error:
        raise ConfigError(f"format={form}: {error}{hint}") from error
