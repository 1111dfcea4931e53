"""s2s-serve: a server that decodes for many clients at once."""

from __future__ import annotations

__all__ = ["main"]

import contextlib
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import CheckpointError, ConfigError
from s2s.cli import Options, check_output, exclude_loaded, run_command
from s2s.run import find_model
from s2s_serve import ServeConfig
from s2s_serve.server_log import start_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Plugins
    from s2s.compose import ComposedConfig


EXTRA = ("uvicorn", "fastapi", "starlette", "pydantic", "prometheus_client", "py3langid")
"""Modules of the extra `serve`"""
SWITCH_INTERVAL = 20e-6
"""Seconds for which a search waits for the interpreter's lock while the event loop holds it; in the 0.005 of Python's
default, a small model searches several sentences, and in 0.0005 one. Linux adds about 0.05 ms."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ServeConfig, serve, argv)


def serve(composed: ComposedConfig[ServeConfig], plugins: Plugins, options: Options) -> None:
    """Load all runs, and answer requests until SIGTERM or SIGINT; running requests are finished."""
    config = composed.config
    show = start_log(config.log, plugins.registry)
    if config.jobs:
        check_output(composed, "jobs", [Path(config.jobs)])
    for run in config.runs.values():  # an unknown name is an error before anything is loaded
        for one in run if isinstance(run, list) else [run]:
            find_model(one, plugins)
    try:
        import uvicorn

        from s2s_serve.app import create_app
        from s2s_serve.job_files import JobFiles
        from s2s_serve.protocol import server_settings
        from s2s_serve.server import load_server

        server = load_server(config, plugins)
        app = create_app(server)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise ConfigError(f"s2s-serve needs {package}: pip install {package} (extra serve)") from error
    if options.dry_run:
        return
    if config.jobs:
        with contextlib.suppress(CheckpointError):  # another server has it
            JobFiles(Path(config.jobs)).check()
    http = uvicorn.Server(server_settings(app, config))
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn sets its own while it runs, and re-raises the signal after
        signal.signal(number, lambda *_: setattr(http, "should_exit", True))
    listening = _listen(config)
    if not options.quiet:
        for name, engine in server.engines.items():
            for origin in engine.origins:
                show(f"model    {name}: {origin}")
            show(f"run      {name}: {engine.description}")
        host, port = listening.getsockname()[:2]
        show(f"serving  http://{f'[{host}]' if ':' in host else host}:{port}")
    exclude_loaded()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        http.run(sockets=[listening])
    finally:
        sys.setswitchinterval(before)


def _listen(config: ServeConfig) -> socket.socket:
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"host={config.host} port={config.port}: {error.strerror or error}") from error
    return listening


if __name__ == "__main__":
    sys.exit(main())
