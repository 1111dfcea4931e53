"""An LSTM layer in training, forward and backward: the operator, its loop in torch, and torch's own layer.

    python benchmarks/lstm.py [widths=128,256,512] [steps=30] [sentences=32] [rounds=9]

The input is as wide as the output. CPU milliseconds of one thread, medians over rounds in turns; torch's own layer has
only fp32. The first column is a lower bound: the products alone, at the rate of those with 2,048 rows and columns.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from s2s.backend import matmul_rate
from s2s.backend.linear import apply_linear
from s2s.backend.operators import lstm
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Layer = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    """x [T, B, H], both weights [4 H, H] and the bias [4 H] -> [T, B, H]"""

OPTIONS = {"widths": "128,256,512", "steps": "30", "sentences": "32", "rounds": "9"}


def main() -> None:
    """Run the measurements and print a table."""
    options = OPTIONS | dict(argument.split("=") for argument in sys.argv[1:])
    steps, sentences, rounds = (int(options[name]) for name in ("steps", "sentences", "rounds"))
    torch.set_num_threads(1)
    load_plugins()
    table = Table("width", "", "least", "operator", "loop in torch", "torch.lstm")
    for width in map(int, options["widths"].split(",")):
        for dtype in (torch.float32, torch.bfloat16):
            layers = [by_operator, by_loop, *([by_torch] if dtype == torch.float32 else [])]
            times = measured(layers, steps, sentences, width, dtype, rounds)
            least = 3 * 2 * steps * sentences * 8 * width**2 / matmul_rate(torch.device("cpu"), dtype, 2048)
            cells = (f"{1e3 * seconds:.1f}" for seconds in (least, *times))
            table.add_row(str(width), str(dtype).removeprefix("torch."), *cells)
    Console(width=100).print(table)


def measured(
    layers: Sequence[Layer], steps: int, sentences: int, width: int, dtype: torch.dtype, rounds: int
) -> list[float]:
    """Seconds of each implementation, run alternately; the first two rounds are a warm-up."""
    torch.manual_seed(0)
    x, *weights = (torch.randn(n, width) / width**0.5 for n in (steps * sentences, 4 * width, 4 * width))
    leaves = [t.requires_grad_() for t in (x.view(steps, sentences, width), *weights, torch.zeros(4 * width))]
    autocast = torch.autocast("cpu", dtype) if dtype == torch.bfloat16 else nullcontext()
    times: list[list[float]] = [[] for _ in layers]
    for _ in range(rounds + 2):
        for layer, own in zip(layers, times, strict=True):
            begun = time.process_time()
            with autocast:
                out = layer(*leaves)
            torch.autograd.grad(out.sum(), leaves)
            own.append(time.process_time() - begun)
    return [statistics.median(own[2:]) for own in times]


def by_operator(x: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    """The operator, as the recurrent architecture calls it."""
    return lstm(apply_linear(x, w, bias), u, *first(x))[0]


def by_loop(x: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    """The operator's reference implementation."""
    return lstm.reference(F.linear(x, w, bias), u, *first(x))[0]


def by_torch(x: Tensor, w: Tensor, u: Tensor, bias: Tensor) -> Tensor:
    """torch.nn.LSTM."""
    state = tuple(t[None] for t in first(x))
    return torch.lstm(x, state, [w, u, bias, torch.zeros_like(bias)], True, 1, 0.0, True, False, False)[0]


def first(x: Tensor) -> tuple[Tensor, Tensor]:
    """Zero output and memory before the first step, [B, H]"""
    return torch.zeros(x.shape[1:]), torch.zeros(x.shape[1:])


if __name__ == "__main__":
    main()
