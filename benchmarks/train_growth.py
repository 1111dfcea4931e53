"""How the cost of training grows with batch, length, width, depth and vocabulary, with a plot of it."""

from __future__ import annotations

__all__ = ["grow"]

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import matplotlib
import torch

from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from train_engines import BASE, build

matplotlib.use("svg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.data.batching import Pair

SMALL = TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4)
AXES = {
    "symbols of a batch": (256, 512, 1024, 2048, 4096),
    "symbols of a sentence": (8, 16, 32, 64, 128, 256),
    "width": (64, 128, 256, 512, 1024),
    "layers a side": (1, 2, 3, 6, 12),
    "vocabulary": (2_000, 4_000, 8_000, 16_000, 32_000),
}
REPEATS = 3


def grow(precision: str, device: torch.device, folder: Path) -> dict[str, dict[int, float]]:
    """Seconds a target symbol, along each axis from the small model with 1,024 symbols in sentences of 32."""
    found = {axis: {x: cost(axis, x, precision, device) for x in points} for axis, points in AXES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    draw(found, precision, folder / f"growth-{precision}.svg")
    return found


def cost(axis: str, x: int, precision: str, device: torch.device) -> float:
    """Seconds of the process (on a GPU, of the clock) a target symbol."""
    tokens, length, n_symbols, config = 1024, 32, 8_000, SMALL
    if axis == "symbols of a batch":
        tokens = x
    elif axis == "symbols of a sentence":
        length = x
    elif axis == "width":
        config = replace(SMALL, d_model=x, d_ff=4 * x, n_heads=max(x // 64, 1))
    elif axis == "layers a side":
        config = replace(SMALL, n_encoder_layers=x, n_decoder_layers=x)
    else:
        n_symbols = x
    engine = build(config, Vocab(src=n_symbols, tgt=n_symbols, joint=True), device, **{**BASE, "precision": precision})
    batch: Sequence[Pair] = [([5] * (length - 1), [5] * (length - 1))] * (tokens // length)
    seconds = []
    for step in range(1 + REPEATS):
        began = now(device)
        engine.update(batch, step + 1)
        seconds.append(now(device) - began)
    return statistics.median(seconds[1:]) / tokens


def now(device: torch.device) -> float:
    """The process's time; with a GPU the clock's, when the GPU is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def draw(found: dict[str, dict[int, float]], precision: str, target: Path) -> None:
    """One picture with a curve for each axis."""
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
