"""How the cost of decoding grows with output length, beam and batch, as a plot next to CTranslate2's.

python benchmarks/decode_growth.py results/growth small ctranslate2
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path

import matplotlib
import torch

from decode_engines import PEERS, Decode, Work, build, ours
from s2s.backend.host import keep_freed_memory

matplotlib.use("agg")
from matplotlib import pyplot as plt

GROWTH = {
    "output length (beam 4, batch 8)": [(n, Work([], n, 4, 8)) for n in (7, 14, 28, 56, 112)],
    "beam (28 symbols, batch 8)": [(k, Work([], 28, k, 8)) for k in (1, 2, 4, 8, 21)],
    "batch (28 symbols, beam 4)": [(b, Work([], 28, 4, b)) for b in (1, 2, 4, 8, 16, 32, 64)],
}


def main(out: str, size: str, *peers: str) -> None:
    """Run the measurements; write OUT.json and OUT.png."""
    torch.set_num_threads(1)
    keep_freed_memory()
    model, vocab = build(size)
    engines = {"s2s": ours(copy.deepcopy(model), vocab)} | {peer: PEERS[peer](model, vocab) for peer in peers}
    found: dict[str, dict[str, list[tuple[int, float]]]] = {axis: {} for axis in GROWTH}
    for axis, points in GROWTH.items():
        for value, work in points:
            for name, decode in engines.items():
                found[axis].setdefault(name, []).append((value, milliseconds(decode, work)))
    Path(f"{out}.json").write_text(json.dumps(found, indent=1))
    plot(found, f"{out}.png", size)


def milliseconds(decode: Decode, work: Work) -> float:
    """CPU milliseconds per output token, the best of three runs."""
    draw = torch.Generator().manual_seed(work.batch)
    sources = torch.randint(4, 3000, (work.batch, 28), generator=draw).tolist()
    times = []
    for _ in range(3):
        begun = time.process_time()
        n_symbols = sum(len(output) + 1 for output in decode(Work(sources, work.n_out, work.beam, work.batch)))
        times.append(1000 * (time.process_time() - begun) / n_symbols)
    return round(min(times), 3)


def plot(found: dict[str, dict[str, list[tuple[int, float]]]], path: str, size: str) -> None:
    """Plot one panel per axis."""
    figure, panels = plt.subplots(1, len(found), figsize=(13, 4))
    for panel, (axis, lines) in zip(panels, found.items(), strict=True):
        for name, points in lines.items():
            panel.plot(*zip(*points, strict=True), marker="o", label=name)
        panel.set(xlabel=axis, ylabel="CPU ms per output symbol", xscale="log", yscale="log")
        values = sorted({value for points in lines.values() for value, _ in points})
        panel.set_xticks(values, map(str, values))
        panel.set_xticks([], minor=True)
        for formatter in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
            formatter("{x:.1g}")
        panel.grid(alpha=0.3)
        panel.legend()
    figure.suptitle(f"{size}, fp32, one thread, 28 source symbols")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main(*sys.argv[1:])
