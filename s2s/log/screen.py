"""What a run shows: plain lines, unless a plugin provides a screen."""

from __future__ import annotations

__all__ = ["Progress", "Screen", "choose_screen"]

from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError
from s2s.hooks import Observer
from s2s.log.files import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s.config import LogConfig
    from s2s.hooks import TrainerView
    from s2s.registry import Registry

LIVE = "live"
"""The screen of log.format=text, if a plugin registers it"""


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


class Progress(Observer):
    """A line for each record with all its numbers; a plugin's observer that derives from this one replaces it."""

    def __init__(self, trainer: TrainerView) -> None:
        self.log = trainer.log

    def update(self, record: Mapping[str, Any]) -> None:
        """Every log.every updates."""
        if self.log.is_due(record["step"]):
            self.log.show(f"update {record['step']:,}/{self.log.n_steps:,}{_numbers(record)}")

    def validated(self, record: Mapping[str, Any]) -> None:
        """Loss and scores."""
        self.log.show(f"valid @{record['step']:,}{_numbers(record)}")

    def saved(self, path: Path, seconds: float) -> None:
        """The checkpoint's path."""
        self.log.show(f"saved {self.log.relative_path(path)} ({seconds:.1f} s, verified)")

    def finished(self, summary: Mapping[str, Any]) -> None:
        """What was done."""
        self.log.show(f"done  {summary['steps']:,} updates")


def _numbers(record: Mapping[str, Any]) -> str:
    return "".join(f"  {name} {value:.6g}" for name, value in scalars(record).items())


def choose_screen(config: LogConfig, registry: Registry, *, quiet: bool) -> Screen:
    """The screen that log.format names."""
    known = registry.names("screen")
    if config.format not in ("text", *known):
        raise ConfigError(
            f"log.format={config.format}: neither text nor a registered screen.{registry.known_hint('screen')}"
        )
    name = LIVE if config.format == "text" else config.format
    if quiet or name not in known:
        return QuietScreen() if quiet else Screen()
    built: Screen = registry.build_default("screen", name)
    return built
