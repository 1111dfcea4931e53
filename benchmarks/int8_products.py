"""The speed of 8-bit linear maps in C: 10⁹ operations (two per weight and row) per CPU second, one thread.

python benchmarks/int8_products.py [rows=1,4,8,16,128] [shapes=256x256,512x512,512x2048,512x37000]

Rows are quantized, multiplied and scaled; shapes are inputs x outputs. Up to six rows are computed with vectors, more
with AMX tiles where available. The best of three runs is shown.
"""

from __future__ import annotations

import sys
import time

import torch

from s2s_cpu.prepacked import HugePageArena, Int8Linear

DEFAULTS = {"rows": "1,4,8,16,128", "shapes": "256x256,512x512,512x2048,512x37000"}


def rate(linear: Int8Linear, n_rows: int) -> float:
    """10⁹ operations a second."""
    x, n_operations = torch.randn(n_rows, linear.n_inputs), 2 * n_rows * linear.n_inputs * linear.n_outputs
    repeats, seconds = max(3, int(2e9 / (n_operations + 1e6))), []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(repeats):
            linear(x)
        seconds.append((time.process_time() - begun) / repeats)
    return n_operations / min(seconds) / 1e9


def main(arguments: list[str]) -> None:
    """Measure and print."""
    options = DEFAULTS | dict(argument.split("=", 1) for argument in arguments)
    torch.set_num_threads(1)
    arena = HugePageArena(2**26)
    for shape in options["shapes"].split(","):
        n_inputs, n_outputs = map(int, shape.split("x"))
        linear = Int8Linear(torch.randn(n_outputs, n_inputs), None, arena)
        found = [f"{n} rows {rate(linear, int(n)):.0f}" for n in options["rows"].split(",")]
        print(f"{shape}: {', '.join(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
