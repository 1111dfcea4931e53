"""Counts and durations for Prometheus, with vLLM's names where it has the same ones. No key and no address is ever a
label."""

from __future__ import annotations

__all__ = ["Metrics"]

from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from s2s_serve.engine import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PREFIX = "s2s"

ENGINE_GAUGES: Mapping[str, tuple[str, Callable[[Engine], float]]] = {
    "num_tokens_waiting": (
        "Source tokens of requests that are not answered.",
        lambda engine: engine.n_waiting,
    ),
    "batch_fill_ratio": (
        "Source tokens in the batch over the most that it takes.",
        lambda engine: (
            sum(one.queue.n_in_batch for one in engine.threads) / sum(one.n_tokens for one in engine.threads)
        ),
    ),
    "engine_failures": ("Searches that failed.", lambda engine: sum(one.n_failures for one in engine.threads)),
    "engine_ready": ("1: a sentence has been answered.", lambda engine: engine.ready),
}


class Metrics:
    """All metrics of the server."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.n_running = 0
        self.requests = self._counter("requests", "Answered requests.", "route", "status")
        self.cancelled = self._counter("requests_cancelled", "Requests whose client has gone.", "route")
        self.source_tokens = self._counter("prompt_tokens", "Source tokens of answered sentences.", "run")
        self.target_tokens = self._counter("generation_tokens", "Tokens of the best outputs.", "run")
        self.latency = self._seconds("e2e_request_latency", "From the whole request to the whole answer.", "route")
        self.time_to_first_sentence = self._seconds(
            "time_to_first_sentence", "Until the first sentence of an answer.", "run"
        )
        self._gauge("num_requests_running", "Requests that are worked on.").set_function(lambda: self.n_running)
        for name, (text, value) in ENGINE_GAUGES.items():
            gauge = self._gauge(name, text, "run")
            for run, engine in engines.items():
                gauge.labels(run).set_function(partial(value, engine))
        ProcessCollector(namespace=PREFIX, registry=self.registry)

    def render(self) -> bytes:
        """All metrics in the exposition format, text version 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace=PREFIX, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace=PREFIX, registry=self.registry)

    def _seconds(self, name: str, text: str, label: str) -> Histogram:
        return Histogram(name, text, [label], namespace=PREFIX, unit="seconds", buckets=SECONDS, registry=self.registry)
