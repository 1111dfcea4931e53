"""Training speed: target symbols per second, without padding, and the effect of each lever.

    python benchmarks/train.py [arch=base] [corpus=multi30k | length=4000] [tokens=1024] [rounds=5]
                               [precision=fp32,bf16] [device=cpu] [threads=2] [--peer] [--levers] [levers=NAME,…]
                               [--growth] [out=FOLDER]

--peer: plain loops over the same batches, and one that keeps freed memory, as ours does, which also takes turns with
ours alone; includes fairseq in the environment that peers.sh makes. --levers: each lever switched off, one at a time.
--growth: how the cost grows with batch, length, width, depth, vocabulary and processes, with plots in `out`. Every
engine has a process of its own and takes turns with the first of the table, batch by batch, so that other load affects
both equally. On a CPU, time is CPU time of the process, with one thread; on a GPU, wall time with synchronisation.
Ratios are medians over the batches. threads=N: instead, wall time of s2s with one thread and with N, and of the plain
loop with N; meaningful only while nothing else runs.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import platform
import statistics
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from s2s.backend.matmul import select_matmul
from s2s.backend.product_rate import matmul_rate
from s2s.backend.selection import DTYPES
from s2s.data.lazy_batch import pair_lengths
from s2s.distributed import pick_device
from s2s.task import Vocab
from s2s.training.micro_batches import n_positions_of, n_tokens_of
from s2s_transformer.cost import forward_operations
from train_data import CORPORA, batches, encoded, of_length
from train_engines import BASE, EngineProcess, arch_of
from train_growth import grow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.data.pairs import Pair
    from s2s_transformer import TransformerConfig

SYMBOLS = {"tiny": 8_000, "width128": 10_000, "small": 8_000, "base": 37_000, "big": 37_000}
PACKAGES = {"MarianMTModel": "transformers", "fairseq": "fairseq"}
"""Packages that peers other than torch need"""
LEVERS: dict[str, dict[str, Any]] = {
    "oneDNN": {"matmul": "torch"},
    "plain attention": {"attention": "sdpa"},
    "attention in C": {"attention": "math"},
    "chunked loss": {"chunk": 0},
    "cheap dropout masks": {"dropout": "torch"},
    "dropout and norms in C": {"dropout": "reference"},
    "linear maps in C or in few shapes": {"shapes": "all"},
    "fused Adam": {"fused": False},
    "padded rectangles": {"packed": True},
    "kept memory": {"kept": False},
    "the loss in C": {"native": False},
}


@dataclass
class Options:
    """Options of the benchmark."""

    arch: str = "base"
    """tiny, width128, small, base or big"""
    corpus: str = CORPORA[-1]
    """Corpus whose sentence lengths are used: synthetic, multi30k or newstest"""
    length: int = 0
    """Tokens on each side of every pair, instead of those of a corpus; 0: the corpus"""
    tokens: int = 1024
    """Tokens per side of a batch"""
    rounds: int = 5
    """Measured batches, after one warm-up batch"""
    precision: str = "fp32,bf16"
    """Of ours; peers run in all of them, too"""
    device: str = "cpu"
    """As train.device, of torch's own: auto, cpu, cuda, …"""
    threads: int = 0
    """Threads to compare with one; 0: no comparison"""
    out: str = ""
    """Folder for results.json and plots; empty: no files"""
    levers: str = ""
    """Comparisons of --levers to run, separated by commas; empty: all"""
    flags: list[str] = field(default_factory=list)
    """--peer, --levers, --growth"""


@dataclass
class Measured:
    """The measurements of one engine."""

    name: str
    tokens_per_second: float
    """Target tokens per second without padding: the median over batches"""
    ratio: float
    """Speed relative to the first engine of the run: the median over batches"""
    used: float
    """Share of the measured rate of matrix products in the same precision"""
    peak: int
    """Peak memory of its process, in bytes"""


def main() -> None:
    """Run the measurements; print tables and a line of JSON."""
    options = parse(sys.argv[1:])
    options.device = str(pick_device(options.device, "device"))
    torch.set_num_threads(1)
    vocab = Vocab(src=SYMBOLS[options.arch], tgt=SYMBOLS[options.arch], joint=True)
    config, device = arch_of(options.arch), torch.device(options.device)
    n_batches = options.rounds + 1
    n_pairs = n_batches * max(1, options.tokens // max(1, options.length))
    pairs = of_length(options.length, n_pairs) if options.length else encoded(options.corpus)
    todo = batches(pairs, options.tokens, n_batches)
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
    for title, specs in comparisons(options):
        engines = {name: {**BASE, **how} for name, how in specs.items()}
        rows[title] = rows.get(title, []) + compare(engines, todo, rates, config, vocab, options.device)
    for title, found in rows.items():
        report[title] = [asdict(row) for row in found]
        show(title, found)
    if "--growth" in options.flags:
        report["growth"] = grow(options.precision.split(",")[-1], device, Path(options.out or "."))
    print(json.dumps(report))
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        name = f"{options.arch}-{options.length or options.corpus}.json"
        (Path(options.out) / name).write_text(json.dumps(report, indent=1) + "\n")


def parse(arguments: Sequence[str]) -> Options:
    """Parse key=value arguments and flags."""
    options = Options(flags=[a for a in arguments if a.startswith("--")])
    for argument in (a for a in arguments if "=" in a):
        key, _, value = argument.partition("=")
        setattr(options, key, type(getattr(options, key))(value))
    return options


def comparisons(options: Options) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """The comparisons to run: a title, and how to build each engine."""
    precisions = options.precision.split(",")
    ours: dict[str, dict[str, Any]] = {f"s2s {p}": {"precision": p} for p in precisions}
    kinds = ["nn.Transformer", *(peer for peer, package in PACKAGES.items() if importlib.util.find_spec(package))]
    peers: dict[str, dict[str, Any]] = {
        f"{kind} {p}": {"peer": kind, "precision": p, "kept": False}
        for kind in kinds
        for p in dict.fromkeys(["fp32", *precisions])
    }
    if options.threads:
        for p in precisions:
            one = {f"s2s, one thread, {p}": {"precision": p, "threads": 1}}
            several = {"precision": p, "threads": options.threads}
            plain = {
                f"nn.Transformer, {options.threads} threads, {p}": {**several, "peer": "nn.Transformer", "kept": False}
            }
            yield f"threads in {p}", {**one, f"s2s, {options.threads} threads, {p}": several, **plain}
        return
    kept = {f"{kinds[0]}, memory kept, {p}": {"peer": kinds[0], "precision": p} for p in precisions}
    if "--peer" in options.flags:
        yield "against plain loops", {**peers, **kept, **ours}
        for p, loop in zip(precisions, kept, strict=True):
            yield f"over the loop that keeps memory, {p}", {loop: kept[loop], f"s2s {p}": ours[f"s2s {p}"]}
    elif "--levers" not in options.flags:
        yield "ours", ours
    if "--levers" in options.flags:
        levers = {name: LEVERS[name] for name in options.levers.split(",") if name} or LEVERS
        for p, (name, without) in itertools.product(precisions, levers.items()):
            whole = {f"s2s {p}": {"precision": p}}
            yield f"levers in {p}", {**whole, f"without {name}, {p}": {"precision": p, **without}}


def compare(
    engines: Mapping[str, dict[str, Any]],
    todo: Sequence[Sequence[Pair]],
    rates: Mapping[str, float],
    config: TransformerConfig,
    vocab: Vocab,
    device: str,
) -> list[Measured]:
    """Measure each engine alternately with the first, batch by batch; the first batch is a warm-up."""
    names = list(engines)
    rows: list[Measured] = []
    for name in names[1:] or names:
        pair = {n: EngineProcess(engines[n], config, vocab, device, todo) for n in dict.fromkeys((names[0], name))}
        seconds = [{n: engine.update(step) for n, engine in pair.items()} for step in range(len(todo))][1:]
        peaks = {n: engine.close() for n, engine in pair.items()}
        for n in pair if not rows else (name,):
            ratio = statistics.median(turn[names[0]] / turn[n] for turn in seconds)
            mine = [turn[n] for turn in seconds]
            rows.append(measured(n, mine, ratio, todo[1:], rates[n.split()[-1]], config, vocab, peaks[n]))
    return rows


def measured(
    name: str,
    seconds: Sequence[float],
    ratio: float,
    todo: Sequence[Sequence[Pair]],
    rate: float,
    config: TransformerConfig,
    vocab: Vocab,
    peak: int,
) -> Measured:
    """A row of the table."""
    speeds = [n_tokens_of(batch)[1] / s for batch, s in zip(todo, seconds, strict=True)]
    lengths = [[side.tolist() for side in pair_lengths(batch)] for batch in todo]
    operations = [3 * forward_operations(config, vocab, *both) for both in lengths]
    used = statistics.median(n / s / rate for n, s in zip(operations, seconds, strict=True))
    return Measured(name, statistics.median(speeds), ratio, used, peak)


def measured_rate(precision: str, device: torch.device) -> float:
    """Operations per second of matrix products, by the backend that s2s uses in that precision."""
    with select_matmul("auto", device).active() if precision == "fp32" else nullcontext():
        return matmul_rate(device, DTYPES[precision], 2048 if device.type == "cpu" else None)


def padding(todo: Sequence[Sequence[Pair]]) -> float:
    """Share of padding in all batches, on both sides."""
    return 1 - sum(sum(n_tokens_of(batch)) for batch in todo) / sum(sum(n_positions_of(batch)) for batch in todo)


def show(title: str, rows: Sequence[Measured]) -> None:
    """Print a table."""
    table = Table("engine", "target symbols/s", "ratio", "of the products' rate", "peak", title=title)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.tokens_per_second:,.1f}",
            f"{row.ratio:.2f}",
            f"{row.used:.0%}",
            f"{row.peak / 2**30:.2f} GiB",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
