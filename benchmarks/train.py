"""How fast training is: target symbols per second, padding not counted, and what each lever brings.

    python benchmarks/train.py [arch=base] [corpus=multi30k] [tokens=1024] [rounds=5] [precision=fp32,bf16] [device=cpu]
                               [--peer] [--levers] [--growth] [--memory] [out=FOLDER]

--peer: plain loops over the same batches. --levers: each lever switched off, one at a time. --growth: how the cost
grows with batch, length, width, depth and vocabulary, with plots in `out`. --memory: the peak of each engine, in a
process of its own. Whatever is compared takes turns, batch by
batch, so that a busy machine hits all alike. On a CPU the time is the process's own, with one thread; on a GPU that
of the clock, with the device waited for. Ratios are medians over the batches.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import platform
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from s2s.machine import PeakMemory, matmul_rate
from s2s.nn.machinery import DTYPES
from s2s.nn.products import choose
from s2s.task import Vocab
from s2s.update import n_places, n_symbols
from s2s_transformer.cost import forward_operations
from train_data import CORPORA, batches, encoded
from train_engines import BASE, Engine, arch_of, build
from train_growth import grow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.data.batching import Pair
    from s2s_transformer import TransformerConfig

SYMBOLS = {"tiny": 8_000, "small": 8_000, "base": 37_000, "big": 37_000}
LEVERS: dict[str, dict[str, Any]] = {
    "oneDNN": {"matmul": "torch"},
    "plain attention": {"attention": "sdpa"},
    "chunked loss": {"chunk": 0},
    "cheap dropout masks": {"dropout": "torch"},
    "fused Adam": {"fused": False},
    "padded rectangles": {"packed": True},
}


@dataclass
class Options:
    """What to measure."""

    arch: str = "base"
    """tiny, small, base or big"""
    corpus: str = CORPORA[-1]
    """Of which real lengths: builtin, multi30k or newstest"""
    tokens: int = 1024
    """Symbols a side of a batch"""
    rounds: int = 5
    """Batches that count, after one to warm up"""
    precision: str = "fp32,bf16"
    """Of ours; peers run in all of them, too"""
    device: str = "cpu"
    """cpu or cuda"""
    out: str = ""
    """Folder for results.json and plots; empty: none"""
    only: str = ""
    """One engine, by the name that it has in the table"""
    flags: list[str] = field(default_factory=list)
    """--peer, --levers, --growth, --memory"""


@dataclass
class Measured:
    """One engine."""

    name: str
    tokens_per_second: float
    """Target symbols, padding not counted: the median of the batches"""
    ratio: float
    """To the first engine of the run, batch by batch: the median"""
    used: float
    """Of the measured rate of matrix products in the same precision"""


def main() -> None:
    """Measure, and print tables and a line of JSON."""
    options = parse(sys.argv[1:])
    torch.set_num_threads(1)
    vocab = Vocab(src=SYMBOLS[options.arch], tgt=SYMBOLS[options.arch], joint=True)
    config, device = arch_of(options.arch), torch.device(options.device)
    pairs = encoded(options.corpus)
    todo = batches(pairs, options.tokens, options.rounds + 1)
    report: dict[str, Any] = {
        "command": f"python benchmarks/train.py {' '.join(sys.argv[1:])}",
        "options": asdict(options),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.processor() or platform.machine()}, torch {torch.__version__}, one thread",
        "padding": padding(todo),
        "pairs": len(pairs),
    }
    rates = {p: measured_rate(p, device) for p in dict.fromkeys(["fp32", *options.precision.split(",")])}
    report["GFLOP/s of products"] = {p: rate / 1e9 for p, rate in rates.items()}
    rows: dict[str, list[Measured]] = {}
    with PeakMemory(device) as peak:
        for title, specs in comparisons(options):
            engines = {name: build(config, vocab, device, **{**BASE, **how}) for name, how in specs.items()}
            rows[title] = rows.get(title, []) + compare(engines, todo, rates, config, vocab)
    for title, found in rows.items():
        report[title] = [asdict(row) for row in found]
        show(title, found)
    if "--memory" in options.flags:
        names = [name for _, specs in comparisons(options) for name in specs]
        report["peak bytes of each"] = {name: memory_of(name) for name in dict.fromkeys(names)}
    if "--growth" in options.flags:
        report["growth"] = grow(options.precision.split(",")[-1], device, Path(options.out or "."))
    report["peak bytes"] = peak.bytes
    print(json.dumps(report))
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        name = f"{options.arch}-{options.corpus}.json"
        (Path(options.out) / name).write_text(json.dumps(report, indent=1) + "\n")


def parse(arguments: Sequence[str]) -> Options:
    """key=value and flags."""
    options = Options(flags=[a for a in arguments if a.startswith("--")])
    for argument in (a for a in arguments if "=" in a):
        key, _, value = argument.partition("=")
        setattr(options, key, type(getattr(options, key))(value))
    return options


def comparisons(options: Options) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """What runs in turns with what: a title, and how each engine is built."""
    precisions = options.precision.split(",")
    ours: dict[str, dict[str, Any]] = {f"s2s {p}": {"precision": p} for p in precisions}
    kinds = ["nn.Transformer", *(["MarianMTModel"] if importlib.util.find_spec("transformers") else [])]
    peers: dict[str, dict[str, Any]] = {
        f"{kind} {p}": {"peer": kind, "precision": p} for kind in kinds for p in dict.fromkeys(["fp32", *precisions])
    }
    if options.only:
        yield options.only, {options.only: {**peers, **ours}[options.only]}
    elif "--peer" in options.flags:
        yield "against plain loops", {**peers, **ours}
    elif "--levers" not in options.flags:
        yield "ours", ours
    if "--levers" in options.flags:
        for p, (name, without) in itertools.product(precisions, LEVERS.items()):
            whole = {f"s2s {p}": {"precision": p}}
            yield f"levers in {p}", {**whole, f"without {name}, {p}": {"precision": p, **without}}


def memory_of(name: str) -> int:
    """Peak bytes of a process that does nothing else than train with this engine."""
    rest = [a for a in sys.argv[1:] if not a.startswith(("--", "rounds=", "out="))]
    command = [sys.executable, __file__, *rest, f"only={name}", "rounds=1"]
    last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    return int(json.loads(last)["peak bytes"])


def compare(
    engines: Mapping[str, Engine],
    todo: Sequence[Sequence[Pair]],
    rates: Mapping[str, float],
    config: TransformerConfig,
    vocab: Vocab,
) -> list[Measured]:
    """Every batch by every engine, in turns; the first batch warms up."""
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    used: dict[str, list[float]] = {name: [] for name in engines}
    for step, batch in enumerate(todo):
        n_tokens = n_symbols(batch)[1]
        src, tgt = ([len(pair[side]) + 1 for pair in batch] for side in (0, 1))
        operations = 3 * forward_operations(config, vocab, src, tgt)
        for name, engine in engines.items():
            seconds = timed(engine, batch, step + 1)
            if step:
                speeds[name].append(n_tokens / seconds)
                used[name].append(operations / seconds / rates[name.split()[-1]])
    first = next(iter(speeds.values()))
    return [
        Measured(
            name,
            statistics.median(those),
            statistics.median(own / other for own, other in zip(those, first, strict=True)),
            statistics.median(used[name]),
        )
        for name, those in speeds.items()
    ]


def timed(engine: Engine, batch: Sequence[Pair], step: int) -> float:
    """Seconds of an update: the process's own on a CPU, else the clock's."""
    on_cpu = engine.device.type == "cpu"
    now = time.process_time if on_cpu else time.perf_counter
    wait = (lambda: None) if on_cpu else torch.cuda.synchronize
    wait()
    began = now()
    engine.update(batch, step)
    wait()
    return now() - began


def measured_rate(precision: str, device: torch.device) -> float:
    """Operations a second of products, by whoever multiplies for us in that precision."""
    with choose("auto", device).multiplying() if precision == "fp32" else nullcontext():
        return matmul_rate(device, DTYPES[precision], 2048 if device.type == "cpu" else None)


def padding(todo: Sequence[Sequence[Pair]]) -> float:
    """Share of the places of all batches, on both sides, that hold no symbol."""
    return 1 - sum(sum(n_symbols(batch)) for batch in todo) / sum(sum(n_places(batch)) for batch in todo)


def show(title: str, rows: Sequence[Measured]) -> None:
    """A table."""
    table = Table("engine", "target symbols/s", "ratio", "of the products' rate", title=title)
    for row in rows:
        table.add_row(row.name, f"{row.tokens_per_second:,.1f}", f"{row.ratio:.2f}", f"{row.used:.0%}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
