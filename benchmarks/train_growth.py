"""How the cost of training grows with batch, length, width, depth, vocabulary and processes, with a plot."""

from __future__ import annotations

__all__ = ["grow"]

import multiprocessing
import os
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import matplotlib
import torch

from s2s.distributed.strategy import join
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_distributed import DistributedConfig
from s2s_transformer import TransformerConfig
from train_engines import BASE, build

matplotlib.use("svg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.data.pairs import Pair
    from train_engines import Engine

SMALL = TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4)
AXES = {
    "symbols of a batch": (256, 512, 1024, 2048, 4096),
    "symbols of a sentence": (8, 16, 32, 64, 128, 256),
    "width": (64, 128, 256, 512, 1024),
    "layers a side": (1, 2, 3, 6, 12),
    "vocabulary": (2_000, 4_000, 8_000, 16_000, 32_000),
    "processes": (1, 2),
}
REPEATS = 3


def grow(precision: str, device: torch.device, folder: Path) -> dict[str, dict[int, float]]:
    """Seconds per target token along each axis, from the small model with 1,024 tokens in sentences of 32."""
    found = {axis: {x: cost(axis, x, precision, device) for x in points} for axis, points in AXES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    draw(found, precision, folder / f"growth-{precision}.svg")
    return found


def cost(axis: str, x: int, precision: str, device: torch.device) -> float:
    """Seconds per target token: CPU time on a CPU, wall time on a GPU."""
    tokens, length, n_symbols, config = 1024, 32, 8_000, SMALL
    if axis == "symbols of a batch":
        tokens = x
    elif axis == "symbols of a sentence":
        length = x
    elif axis == "width":
        config = replace(SMALL, d_model=x, d_ff=4 * x, n_heads=max(x // 64, 1))
    elif axis == "layers a side":
        config = replace(SMALL, n_encoder_layers=x, n_decoder_layers=x)
    elif axis == "vocabulary":
        n_symbols = x
    else:
        return cost_of_processes(x, tokens, length, precision)
    engine = build(config, vocab_of(n_symbols), device, **{**BASE, "precision": precision})
    return seconds_of(engine, device, tokens, length) / tokens


def vocab_of(n_symbols: int) -> Vocab:
    return Vocab(src=n_symbols, tgt=n_symbols, joint=True)


def seconds_of(engine: Engine, device: torch.device, tokens: int, length: int) -> float:
    """Seconds of an update: the median of several, after one warm-up."""
    batch: Sequence[Pair] = [([5] * (length - 1), [5] * (length - 1))] * (tokens // length)
    seconds = []
    for step in range(1 + REPEATS):
        began = clock(device)
        engine.update(batch, step + 1)
        seconds.append(clock(device) - began)
    return statistics.median(seconds[1:])


def cost_of_processes(n: int, tokens: int, length: int, precision: str) -> float:
    """CPU seconds of all n processes together, per token of a batch that they run_share."""
    context = multiprocessing.get_context("spawn")
    queue, port = context.Queue(), 29_000 + os.getpid() % 1000
    arguments = [(rank, n, port, tokens, length, precision, queue) for rank in range(n)]
    processes = [context.Process(target=run_share, args=those, daemon=True) for those in arguments]
    for process in processes:
        process.start()
    total = sum(queue.get(timeout=600) for _ in processes)
    for process in processes:
        process.join()
    return total / tokens


def run_share(rank: int, n: int, port: int, tokens: int, length: int, precision: str, queue: Any) -> None:
    """The body of one process."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(n)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    world = join(DistributedConfig(device="cpu", timeout=300.0), load_plugins().registry)
    how = {**BASE, "precision": precision, "world": world}
    engine = build(SMALL, vocab_of(8_000), world.device, **how)
    queue.put(seconds_of(engine, world.device, tokens, length))
    world.barrier()
    world.close()


def clock(device: torch.device) -> float:
    """CPU time of the process; on a GPU, wall time after synchronisation."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def draw(found: dict[str, dict[int, float]], precision: str, target: Path) -> None:
    """Plot one figure with a curve for each axis."""
    figure, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.2), sharey=True)
    for ax, (axis, points) in zip(axes, found.items(), strict=True):
        ax.loglog(list(points), [1e6 * y for y in points.values()], "o-")
        ax.set_xlabel(axis)
        ax.set_xticks(list(points), [f"{x:,}" for x in points], rotation=45)
        ax.set_yticks(y_ticks := [50, 100, 200, 500, 1000, 2000], map(str, y_ticks))
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel(f"µs a target symbol, {precision}")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
