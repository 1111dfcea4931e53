"""The log of the server: text on standard error, or records of a screen, such as json, on standard output."""

from __future__ import annotations

__all__ = ["log_request", "start_log"]

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Registry
    from s2s.log import Screen
    from s2s_serve import ServeLog

TEXT = "text"
REQUESTS = logging.getLogger("s2s_serve.requests")


def start_log(config: ServeLog, registry: Registry) -> Callable[[str], None]:
    """Log from now on; what shows a line about the server itself. Raises PluginError if the format is no screen."""
    REQUESTS.setLevel(logging.INFO if config.requests else logging.WARNING)
    if config.format == TEXT:
        logging.basicConfig(format="%(levelname)s: %(message)s", force=True)
        return lambda text: print(text, file=sys.stderr, flush=True)
    screen: Screen = registry.build_default("screen", config.format)
    logging.basicConfig(handlers=[Records(screen)], force=True)
    logging.captureWarnings(capture=True)
    return lambda text: screen.record({"kind": "line", "time": _time(), "text": text})


def log_request(method: str, route: str, status: str, seconds: float) -> None:
    """Log that a request was answered: without its path, which may have a name, a key or an address."""
    REQUESTS.info("%s %s %s %.3f", method, route, status, seconds)


class Records(logging.Handler):
    """Writes what is logged as records of a screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """One record: warning, error or request, and a traceback if there is one."""
        kind = "request" if record.name == REQUESTS.name else record.levelname.lower()
        fields: dict[str, object] = {"kind": kind, "time": _time(), "text": record.getMessage()}
        if record.name == REQUESTS.name and isinstance(record.args, tuple):
            fields |= dict(zip(("method", "route", "status", "seconds"), record.args, strict=True))
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        self.screen.record(fields)


def _time() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
