"""What a run shows on standard output: the contract of screens, and the choice of one."""

from __future__ import annotations

__all__ = ["Screen", "choose_screen"]

from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.config.run import LogConfig
    from s2s.registry import Registry

LIVE = "live"
"""The screen of log.format=text"""


class Screen:
    """Standard output, which shows only lines."""

    def line(self, text: str, indent: int = 0) -> None:
        """Text for people; indent: of its continuation lines, where a terminal wraps it."""
        print(text, flush=True)

    def record(self, record: Mapping[str, Any]) -> None:
        """The same for programs, as in log.jsonl."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class QuietScreen(Screen):
    """Shows nothing; warnings go to standard error, whatever the screen."""

    def line(self, text: str, indent: int = 0) -> None:
        """Nothing."""


def choose_screen(config: LogConfig, registry: Registry, *, quiet: bool) -> Screen:
    """The screen that log.format names."""
    if config.format not in ("text", *registry.names("screen")):
        raise ConfigError(
            f"log.format={config.format}: neither text nor a registered screen.{registry.known_hint('screen')}"
        )
    if quiet:
        return QuietScreen()
    screen: Screen = registry.build_default("screen", LIVE if config.format == "text" else config.format)
    return screen
