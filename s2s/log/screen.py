"""What a run shows: plain lines, or what a plugin makes of them, such as a live line on a terminal."""

from __future__ import annotations

__all__ = ["Screen", "choose_screen"]

from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.config import LogConfig
    from s2s.log.lines import UpdateLine
    from s2s.registry import Registry

LIVE = "live"
"""The screen of log.format=text, where a plugin brings it"""


class Screen:
    """Plain lines, one every log.every updates."""

    live = False
    """Whether it takes every update, not only those that are due for a line."""

    def line(self, text: str, indent: int = 0) -> None:
        """Text for people; indent: of the lines that follow, where a terminal breaks it."""
        print(text, flush=True)

    def update(self, line: UpdateLine, due: bool) -> None:
        """Where the run stands; `due` every log.every updates."""
        if due:
            self.line(str(line))

    def record(self, record: Mapping[str, Any]) -> None:
        """The same for programs, as in log.jsonl."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class QuietScreen(Screen):
    """Nothing; warnings go to standard error, whatever the screen."""

    def line(self, text: str, indent: int = 0) -> None:
        """Nothing."""


def choose_screen(config: LogConfig, registry: Registry, *, quiet: bool) -> Screen:
    """The one that log.format names."""
    known = registry.names("screen")
    if config.format not in ("text", *known):
        raise ConfigError(
            f"log.format={config.format}: neither text nor a registered screen.{registry.known('screen')}"
        )
    if quiet:
        return QuietScreen()
    name = LIVE if config.format == "text" else config.format
    if name not in known:
        return Screen()
    built: Screen = registry.build_default("screen", name)
    return built
