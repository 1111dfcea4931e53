"""What is served: engines by name, limits, keys and counts."""

from __future__ import annotations

__all__ = ["Server", "load_server"]

import asyncio
import contextlib
import difflib
import hmac
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, DataError, Plugins
from s2s.compose import arguments_of, compose
from s2s.config import GenerateConfig, Mark
from s2s.decoding import BeamConfig, GreedyConfig
from s2s.generation import Input, PackedDecoding
from s2s.io import read_bytes
from s2s_serve import ServeConfig
from s2s_serve.connection import until_disconnect
from s2s_serve.engine import Engine, warm_up_text
from s2s_serve.generating import TextOptions, text_outputs
from s2s_serve.jobs import Jobs
from s2s_serve.metrics import Metrics
from s2s_serve.refusal import busy, deadline_exceeded, invalid, too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from s2s import Choice
    from s2s.generation import Candidate, LoadedGenerator

logger = logging.getLogger(__name__)

NBEST = 4
"""Maximum number of outputs of an input, unless it is given or the beam is smaller"""
CPU_TOKENS = 256
"""Maximum source tokens in a batch on a CPU, unless it is given: with beam 4 about 64 rows, which products take as fast
as more; with more, each sentence waits longer for the steps of others"""


@dataclass
class Server:
    """The engines, and the state that all requests share."""

    config: ServeConfig
    engines: Mapping[str, Engine]
    plugins: Plugins
    keys: Sequence[str] = ()
    metrics: Metrics = field(init=False)
    jobs: Jobs | None = None
    """Set while requests are answered, if a folder is configured"""

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.engines)

    def engine(self, name: str) -> Engine:
        """The engine of a run by its name; the first if it is empty."""
        if not name:
            return next(iter(self.engines.values()))
        if name not in self.engines:
            raise invalid(f"run: no such run here; there are {', '.join(self.engines)}")
        return self.engines[name]

    def knows(self, key: str) -> bool:
        """Whether this is one of the keys, compared in constant time."""
        return any(hmac.compare_digest(key.encode(), known.encode()) for known in self.keys)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise RefusedError for more text than one request may contain."""
        n = sum(map(len, texts))
        if n > self.config.max_chars:
            raise too_large(
                f"{n:,} characters are more than the {self.config.max_chars:,} allowed; send a file as a job"
            )

    @contextlib.asynccontextmanager
    async def working(self, deadline: float = 0.0, limit: float = 0.0) -> AsyncIterator[None]:
        """Count a request as running; raises RefusedError if there are too many, or when its deadline has passed.

        deadline: the seconds that the request sets for itself; 0: `limit`, which by default is the server's own.
        """
        if self.metrics.n_running >= self.config.max_requests:
            raise busy(f"{self.config.max_requests} requests are worked on already; try again later", 1)
        limit = limit or self.config.deadline
        seconds = min(deadline or limit, limit)
        self.metrics.n_running += 1
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise deadline_exceeded(seconds) from None
        finally:
            self.metrics.n_running -= 1

    async def outputs(
        self,
        text: str,
        run: str = "",
        *,
        nbest: int = 1,
        fields: Mapping[str, Any] | None = None,
        request: Request | None = None,
    ) -> list[Candidate]:
        """The outputs of a text, best first; raises RefusedError for what no request may ask for.

        run: name of a served run; empty: the first. fields: those that the task reads of an input, such as languages.
        request: the search for its outputs ends when its client disconnects.
        """
        engine = self.engine(run)
        self.check_texts([text])
        engine.check_nbest(nbest)
        async with self.working():
            work = text_outputs(engine, text, TextOptions(nbest=nbest, fields=dict(fields or {})))
            return await (until_disconnect(request, work, self.metrics) if request else work)

    def state(self) -> tuple[int, dict[str, Any]]:
        """Status and body of /healthz: ok if every engine has answered a sentence since its last failure."""
        runs = {name: "ok" if engine.ready else "not ready" for name, engine in self.engines.items()}
        ready = all(engine.ready for engine in self.engines.values())
        body: dict[str, Any] = {"status": "ok" if ready else "not ready", "runs": runs}
        if self.jobs:
            body["failed_jobs"] = sum(bool(job.failure) for job in self.jobs.jobs.values())
        return (200 if ready else 503), body


def load_server(config: ServeConfig, plugins: Plugins) -> Server:
    """Load every run."""
    _check_options(config, plugins)
    for api in config.apis:
        plugins.registry.get("serve_api", api)  # raises PluginError for an unknown API
    options = {"threads": 1, "matmul": "exact", **config.generate, "format": "jsonl"}
    engines = {}
    for name, run in config.runs.items():
        options |= {"run": run}
        composed = compose(GenerateConfig, arguments_of(GenerateConfig, options), plugins)
        if composed.config.n_processes != 1:
            n_workers = config.generate.get("workers")
            raise ConfigError(f"generate.workers={n_workers}: a server has one process; leave it out")
        if composed.config.n_search_threads > 1:
            n_workers = config.generate.get("threads")
            raise ConfigError(f"generate.threads={n_workers}: a server searches in one thread; leave it out")
        nbest = _nbest(config, name, PackedDecoding(composed, plugins).search_config())
        composed = compose(GenerateConfig, arguments_of(GenerateConfig, {**options, "nbest": nbest}), plugins)
        decoding = PackedDecoding(composed, plugins)
        loaded = _loaded(decoding)
        n_tokens = _batch_tokens(config, loaded)
        engines[name] = Engine(name, loaded, n_tokens, config.max_waiting, decoding.origins)
    return Server(config, engines, plugins, _keys(config.key_file))


def _loaded(decoding: PackedDecoding) -> LoadedGenerator:
    """The generator; if it is that of the model, the next server is given what does without, where that is possible."""
    loaded = decoding.load()
    if loaded.aligns is None:
        generator = loaded.generator
        fields = next((fields for _, _, fields in generator.task.directions()), {})
        with contextlib.suppress(DataError):  # it reads other fields of an input
            list(generator.generate([Input(warm_up_text(generator.task), fields=dict(fields))]))
            decoding.keep(loaded)
    return loaded


def _batch_tokens(config: ServeConfig, loaded: LoadedGenerator) -> int:
    """Maximum source tokens in a batch."""
    n_tokens = loaded.generator.config.tokens
    is_chosen = "tokens" in config.generate or loaded.provenance["device"] != "cpu"
    return n_tokens if is_chosen else min(n_tokens, CPU_TOKENS)


def _nbest(config: ServeConfig, name: str, search: Choice) -> int:
    """Maximum number of outputs of a run; raises ConfigError if more were given than its search finds."""
    if not isinstance(search, BeamConfig | GreedyConfig):
        return config.nbest or NBEST
    beam = search.beam if isinstance(search, BeamConfig) else 1
    if config.nbest > beam:
        what = f"nbest={config.nbest} is more than the beam of {name}, which is {beam} (search={search.name})"
        raise ConfigError(f"{what}; give a smaller nbest, or generate.search=beam generate.search.beam={config.nbest}")
    return config.nbest or min(NBEST, beam)


def _check_options(config: ServeConfig, plugins: Plugins) -> None:
    """Raise ConfigError for options of s2s-generate without effect, and for misspelled ones of the server."""
    schema = plugins.registry.with_options(GenerateConfig)
    known, own = ({item.name for item in fields(one)} for one in (schema, ServeConfig))
    for name in (name for name in config.generate if name not in known):
        if near := difflib.get_close_matches(name, own, n=1, cutoff=0.75):
            raise ConfigError(f"{name}: no such option. Did you mean '{near[0]}'?")
        if not difflib.get_close_matches(name, known):  # else that one is suggested when they are composed
            raise ConfigError(
                f"{name}: no such option. Of the server there are {', '.join(sorted(own))}; all others are options of "
                "s2s-generate: s2s-generate --help"
            )
    file_options = Mark.options(schema, Mark.OF_FILES)
    reasons = dict.fromkeys(file_options, "a server reads and writes no files; leave it out")
    reasons |= dict.fromkeys(("raw", "fields"), "every request has its own; leave it out")
    reasons |= {"nbest": "give nbest, without generate", "run": "give run, without generate"}
    for name, value in config.generate.items():
        if name in reasons:
            raise ConfigError(f"generate.{name}={value}: {reasons[name]}")


def _keys(path: str) -> list[str]:
    if not path:
        return []
    try:
        lines = read_bytes(Path(path)).decode().splitlines()
    except OSError as error:
        raise ConfigError(f"key_file={path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a pipe, which may never begin; other bytes than UTF-8
        what = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"is {error}"
        raise ConfigError(f"key_file={path} {what}; give a text file with one key a line") from None
    keys = [key for line in lines if (key := line.strip())]
    if not keys:
        raise ConfigError(f"key_file={path} holds no key; write one a line, or leave it out")
    return keys
