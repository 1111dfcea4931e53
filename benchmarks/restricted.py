"""Seconds of restricted and full self-attention by length, and the exponents of n and r, for the rows of Table 1.

python benchmarks/restricted.py [OUTPUT.json]
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import torch

from s2s.nn import KERNELS, PaddedLayout
from s2s_transformer.restricted import RestrictedLayout

LENGTHS = (128, 256, 512, 1024, 2048)
NEIGHBOURHOODS = (33, 65, 129)
HEADS, WIDTH = 8, 64
REPEATS = 3


def main(arguments: list[str]) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [{"n": n, **measure(n)} for n in LENGTHS]
    for row in rows:
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
    slopes = {
        name: exponent([row["n"] for row in rows], [row[name] for row in rows]) for name in rows[0] if name != "n"
    }
    longest = [rows[-1][f"r={r}"] for r in NEIGHBOURHOODS]
    slopes["in r"] = exponent(NEIGHBOURHOODS, longest)
    print("exponents", "  ".join(f"{name}: {value:.2f}" for name, value in slopes.items()))
    if arguments:
        Path(arguments[0]).write_text(json.dumps({"seconds": rows, "exponents": slopes}, indent=1) + "\n")


def measure(n: int) -> dict[str, float]:
    """CPU seconds of one forward pass of attention, the shortest of several."""
    q, k, v = (torch.randn(1, HEADS, n, WIDTH) for _ in range(3))
    pad = torch.zeros(1, n, dtype=torch.bool)
    layouts = {f"r={r}": RestrictedLayout(KERNELS["math"], r // 2, pad, causal=False) for r in NEIGHBOURHOODS}
    everything = {"full": PaddedLayout(KERNELS["math"], torch.zeros(1, 1, 1, n)), **layouts}
    return {name: min(seconds(layout, q, k, v) for _ in range(REPEATS)) for name, layout in everything.items()}


@torch.no_grad()
def seconds(layout: PaddedLayout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> float:
    begun = time.process_time()
    layout.attend(q, k, v, 0.0)
    return time.process_time() - begun


def exponent(sizes: list[float] | tuple[int, ...], times: list[float]) -> float:
    """The slope of log time over log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(t) for t in times]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / sum((a - x_mean) ** 2 for a in x)


if __name__ == "__main__":
    main(sys.argv[1:])
