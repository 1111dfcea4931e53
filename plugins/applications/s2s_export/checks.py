"""Checks that all export formats share."""

from __future__ import annotations

__all__ = ["foreign_options", "starting_token"]

from typing import TYPE_CHECKING, Any

from s2s import ConfigError

if TYPE_CHECKING:
    from s2s import Vocab
    from s2s_export import ExportInput


def starting_token(vocab: Vocab, form: str) -> int:
    """The token with which decoding begins; raises ConfigError where there are several."""
    if len(vocab.starting_tokens) > 1:
        raise ConfigError(
            f"format={form} begins decoding with one token, but this run with {len(vocab.starting_tokens)}"
        )
    return vocab.starting_tokens[0]


def foreign_options(model: ExportInput, form: str, hint: str = "") -> dict[str, Any]:
    """Options under their names in the format; raises ConfigError for what the format cannot express."""
    try:
        return model.format.write_options(model.arch)
    except ConfigError as error:
        raise ConfigError(f"format={form}: {error}{hint}") from error
