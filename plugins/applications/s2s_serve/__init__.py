"""An HTTP server for trained runs, with a page to try them, as a plugin: the command s2s-serve (extra `serve`).

command → server (engines by name) → app (routes of the APIs, limits, errors) → generating (text in, sentences out as
they are finished) → engine (one model, loaded when it is needed) → search_thread (a search and its queue).
An API is registered in the group `serve_api`.
"""

from __future__ import annotations

__all__ = ["RefusedError", "ServeApi", "ServeConfig", "s2s_register"]

import re
from dataclasses import dataclass, field
from typing import Any

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import above, at_least, check_ranges
from s2s_serve.api import ServeApi
from s2s_serve.refusal import RefusedError

HOST = re.compile(r"\*|(\*\.)?[\w.-]+|\[?[0-9a-fA-F:.]+\]?", re.ASCII)
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/\sA-Z@]+")


@dataclass(kw_only=True)
class ServeLog:
    """The log of the server."""

    format: str = "text"
    """text, on standard error; or json, or another registered screen: records on standard output, as containers keep
    them."""
    requests: bool = False
    """Also each answered request: method, route, status and seconds, without its client."""


@dataclass(kw_only=True)
class ServeConfig:
    """s2s-serve: an HTTP server for trained runs, with a page to try them.

    s2s-serve run=my_run
    s2s-serve run="{en-de: my_run, parse: my_parser}" port=8000
    """

    run: Any = ""
    """A run, as s2s-generate takes it, or several by name, as in {en-de: my_run, parse: my_parser}. A name such as
    en-de gives the languages, unless task.src_lang and task.tgt_lang do."""
    generate: dict[str, Any] = field(default_factory=dict, metadata={"takes_others": True})
    """Options of s2s-generate for all runs, as in generate.search.beam=8 generate.quantization=int8. By default
    threads=1 and matmul=exact, with which an output never depends on other requests, and on a CPU tokens=256, with
    which a sentence waits less for the others of its batch."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every network of this machine."""
    port: int = 8000
    """Port to listen on; 0: any free port."""
    hosts: list[str] = field(default_factory=list)
    """Names of this server, such as translate.example.org or *.example.org, under which it answers (Host); * is any
    name. Always: localhost, the name in `host`, and addresses; if it listens on this machine alone, only 127.0.0.0/8
    and ::1 of them."""
    cors: list[str] = field(default_factory=list)
    """Origins whose pages may call this server (CORS), such as https://example.org; * is any. Requests of other sites'
    pages are refused."""
    key_file: str = ""
    """File of API keys, one per line: every request must carry one of them. Empty: no keys."""
    apis: list[str] = field(default_factory=lambda: ["own", "libretranslate"])
    """APIs that are offered: own, libretranslate, and those of plugins. The page and jobs need own."""
    jobs: str = ""
    """Folder for files sent to /v1/jobs and their outputs; empty: no jobs."""
    nbest: int = 0
    """Maximum number of outputs that a request may ask for per input; 0: 4, or the beam of the run if it is smaller."""
    max_chars: int = 20_000
    """Maximum size of a request, in characters of all its texts."""
    max_file: int = 100_000_000
    """Maximum size of a job's file, in bytes."""
    max_jobs: int = 1000
    """Maximum number of jobs, those included that are done and not deleted; more are refused with 429."""
    max_jobs_size: int = 10_000_000_000
    """Maximum size of all jobs, in bytes, an output counted as its input or more; more is refused with 429."""
    max_document: int = 10_000_000
    """Maximum size of a document, in bytes."""
    document_deadline: float = 600.0
    """Maximum seconds for a document."""
    document_kept: float = 1800.0
    """Seconds for which LibreTranslate's API keeps a translated document to be downloaded, in memory."""
    max_requests: int = 256
    """Maximum number of concurrent requests; more are refused with 429."""
    max_waiting: int = 50_000
    """Maximum number of source tokens, over all requests, waiting for one run; more are refused with 429."""
    client_rate: int = 0
    """Maximum number of requests a minute of one client, known by its key or else its address; 0: any number."""
    client_requests: int = 0
    """Maximum number of concurrent requests of one client; 0: any number."""
    client_timeout: float = 30.0
    """Seconds within which a client has to send the head of a request. In as many, 500 bytes a second of a body have to
    arrive, and of an answer to be read."""
    deadline: float = 60.0
    """Maximum seconds for a request; a request may set a shorter deadline."""
    drain: float = 30.0
    """Seconds that running requests have to finish after SIGTERM."""
    log: ServeLog = field(default_factory=ServeLog)

    def __post_init__(self) -> None:
        if not self.run:
            raise ConfigError("run: which model? Give run=NAME, a run directory, run=last, or run={name: RUN, …}")
        if not self.apis:
            raise ConfigError("apis=[]: name at least one API")
        if self.jobs and "own" not in self.apis:
            raise ConfigError(f"jobs={self.jobs}: jobs belong to the API own, which apis={self.apis} leaves out")
        check_ranges("", self, port=at_least(0, 65_535), nbest=at_least(0, 100), max_requests=at_least(1))
        check_ranges("", self, max_chars=at_least(1), max_file=at_least(1), max_waiting=at_least(1))
        check_ranges("", self, max_jobs=at_least(1), max_jobs_size=at_least(1))
        check_ranges("", self, max_document=at_least(1), document_deadline=above(0), document_kept=above(0))
        check_ranges("", self, deadline=above(0), drain=at_least(0), client_timeout=above(0))
        check_ranges("", self, client_rate=at_least(0), client_requests=at_least(0))
        _check_all("hosts", self.hosts, HOST, "a name without scheme and port, such as example.org, *.example.org or *")
        _check_all("cors", self.cors, ORIGIN, "an origin without a path, such as https://example.org, or *")

    @property
    def runs(self) -> dict[str, Any]:
        """Name of each served model -> its run, or several runs as an ensemble."""
        if isinstance(self.run, dict):
            return {str(name): run for name, run in self.run.items()}
        return {str(self.run[0] if isinstance(self.run, list) else self.run).rstrip("/").rpartition("/")[2]: self.run}


def _check_all(option: str, values: list[str], pattern: re.Pattern[str], expected: str) -> None:
    if wrong := [value for value in values if not pattern.fullmatch(value)]:
        raise ConfigError(f"{option}={values}: {wrong[0]!r} is not {expected}")


@hookimpl
def s2s_register(registry: Registry) -> None:
    contract = "an API of s2s-serve: factory(config, server: s2s_serve.server.Server) -> s2s_serve.ServeApi"
    registry.group("serve_api", contract)
    registry.add("serve_api", "own", Choice, "s2s_serve.own_api:own_api")
    registry.add("serve_api", "libretranslate", Choice, "s2s_serve.libretranslate:libretranslate")
