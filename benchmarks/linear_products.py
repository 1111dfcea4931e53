"""Speed of linear maps in C: 10⁹ operations (two per weight and row) per CPU second, one thread.

python benchmarks/linear_products.py [type=int8|bf16|fp32] [rows=1,4,8,16,128] [shapes=256x256,512x512,…]

Shapes are inputs x outputs; the figures include rounding or quantizing the rows. On processors with AMX, int8 from 7
rows on and bf16 use its tiles. Shown is the best of three runs.
"""

from __future__ import annotations

import sys
import time

import torch

from s2s_cpu.prepacked import Bf16Linear, Fp32Linear, HugePageArena, Int8Linear, PrepackedLinear

TYPES = {"int8": Int8Linear, "bf16": Bf16Linear, "fp32": Fp32Linear}
DEFAULTS = {"type": "int8", "rows": "1,4,8,16,128", "shapes": "256x256,512x512,512x2048,512x37000"}


def rate(linear: PrepackedLinear, n_rows: int) -> float:
    """10⁹ operations per second."""
    x, n_operations = torch.randn(n_rows, linear.n_inputs), 2 * n_rows * linear.n_inputs * linear.n_outputs
    repeats, seconds = max(3, int(2e9 / (n_operations + 1e6))), []
    for _ in range(3):
        begun = time.process_time()
        for _ in range(repeats):
            linear(x)
        seconds.append((time.process_time() - begun) / repeats)
    return n_operations / min(seconds) / 1e9


def main(arguments: list[str]) -> None:
    """Run the measurements and print them."""
    options = DEFAULTS | dict(argument.split("=", 1) for argument in arguments)
    torch.set_num_threads(1)
    arena = HugePageArena(2**26)
    for shape in options["shapes"].split(","):
        n_inputs, n_outputs = map(int, shape.split("x"))
        linear = TYPES[options["type"]](torch.randn(n_outputs, n_inputs), None, arena)
        found = [f"{n} rows {rate(linear, int(n)):.0f}" for n in options["rows"].split(",")]
        print(f"{shape}: {', '.join(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
