"""Which commands and requests load a model."""

from __future__ import annotations

__all__ = ["record_loads"]

from typing import TYPE_CHECKING, Any

from s2s.generation import build

if TYPE_CHECKING:
    import pytest


def record_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run of each model that is loaded from now on."""
    calls, load = list[str](), build.load_for_decoding

    def recorded(config: Any, plugins: Any) -> Any:
        calls.append(config.run)
        return load(config, plugins)

    monkeypatch.setattr(build, "load_for_decoding", recorded)
    return calls
