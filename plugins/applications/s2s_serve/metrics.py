"""Counters and histograms in Prometheus format, with vLLM's names where it has the same ones. No key and no address is
ever a label."""

from __future__ import annotations

__all__ = ["Counter", "Histogram", "Metrics", "resident_memory"]

import resource
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s_serve.engine import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PREFIX = "s2s_"


class Counter:
    """A number for each combination of label values that only grows."""

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self.text, self.labels = name, text, labels
        self.values: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, n: float, *labels: str) -> None:
        """Add `n` under these labels."""
        self.values[labels] += n

    def samples(self) -> Iterator[str]:
        """Lines of the exposition format."""
        for values, n in sorted(self.values.items()):
            yield _sample(self.name, dict(zip(self.labels, values, strict=True)), n)


class Histogram:
    """Counts of the observations up to each bound."""

    kind = "histogram"

    def __init__(self, name: str, text: str, label: str, bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.text, self.label, self.bounds = name, text, label, bounds
        self.counts: dict[str, list[int]] = {}
        self.sums: dict[str, float] = defaultdict(float)

    def observe(self, value: float, label: str) -> None:
        """Add one observation."""
        counts = self.counts.setdefault(label, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[label] += value

    def samples(self) -> Iterator[str]:
        """Lines of the exposition format: buckets are cumulative."""
        for label, counts in sorted(self.counts.items()):
            of, below = {self.label: label}, 0
            for bound, n in zip((*self.bounds, "+Inf"), counts, strict=True):
                below += n
                yield _sample(f"{self.name}_bucket", {**of, "le": str(bound)}, below)
            yield _sample(f"{self.name}_sum", of, self.sums[label])
            yield _sample(f"{self.name}_count", of, below)


class Metrics:
    """All metrics of the server."""

    def __init__(self) -> None:
        self.requests = Counter("requests_total", "Answered requests.", "route", "status")
        self.cancelled = Counter("requests_cancelled_total", "Requests whose client has gone.", "route")
        self.source_tokens = Counter("prompt_tokens_total", "Source tokens of answered sentences.", "run")
        self.target_tokens = Counter("generation_tokens_total", "Tokens of the best outputs.", "run")
        self.latency = Histogram("e2e_request_latency_seconds", "From the whole request to the whole answer.", "route")
        self.time_to_first_sentence = Histogram(
            "time_to_first_sentence_seconds", "Until the first sentence of an answer.", "run"
        )
        self.n_running = 0

    def render(self, engines: Iterable[Engine]) -> str:
        """All metrics in the exposition format, text version 0.0.4."""
        kept = (
            self.requests,
            self.cancelled,
            self.source_tokens,
            self.target_tokens,
            self.latency,
            self.time_to_first_sentence,
        )
        blocks = [_block(each.name, each.kind, each.text, each.samples()) for each in kept]
        gauges: Mapping[str, tuple[str, list[tuple[str, float]]]] = _gauges(list(engines))
        blocks += [
            _block(name, "gauge", text, (_sample(name, {"run": run}, value) for run, value in values))
            for name, (text, values) in gauges.items()
        ]
        plain = {
            "num_requests_running": ("Requests that are worked on.", float(self.n_running)),
            "process_resident_memory_bytes": ("Resident memory.", float(resident_memory())),
        }
        blocks += [_block(name, "gauge", text, [_sample(name, {}, value)]) for name, (text, value) in plain.items()]
        return "".join(blocks)


def _gauges(engines: list[Engine]) -> dict[str, tuple[str, list[tuple[str, float]]]]:
    return {
        "num_tokens_waiting": (
            "Source tokens of requests that are not answered.",
            [(engine.name, engine.n_waiting) for engine in engines],
        ),
        "batch_fill_ratio": (
            "Source tokens in the batch over the most that it takes.",
            [(engine.name, engine.queue.n_in_batch / engine.queue.n_tokens) for engine in engines],
        ),
        "engine_failures": ("Searches that failed.", [(engine.name, engine.n_failures) for engine in engines]),
        "engine_ready": ("1: a sentence has been answered.", [(engine.name, int(engine.ready)) for engine in engines]),
    }


def resident_memory() -> int:
    """Resident memory of this process in bytes."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(pages) * resource.getpagesize()


def _block(name: str, kind: str, text: str, samples: Iterable[str]) -> str:
    return "".join([f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} {kind}\n", *samples])


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    quoted = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{PREFIX}{name}{'{' + quoted + '}' if quoted else ''} {value:g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
