"""`python benchmarks/table1.py FOLDER`: Table 1 of the paper, measured.

One layer of each kind over lengths and widths: operations are counted, memory is what is kept for the backward pass,
time is CPU time of one thread. Exponents are fitted to the upper half of each range, where constant costs matter least.
"""

from __future__ import annotations

__all__ = ["main", "measure", "report"]

import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from layer_costs import cost, exponent, path_length, products_in_sequence
from layer_kinds import KINDS, Convolutional
from s2s import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from layer_kinds import Kind, Layer

LENGTHS = (64, 128, 256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512, 1024)
WINDOWS = {"convolutional": (1, 3, 5, 9, 17), "self-attention, restricted": (8, 16, 32, 64, 128)}
N, D = 512, 256
"""Length and width where they are not varied"""
COUNTED = (8, 16, 32, 64)
"""Lengths at which sequential operations and paths are counted"""
SMALL, WINDOW = 8, 5
"""Width and window at those lengths"""

Measured = dict[str, dict[str, list[dict[str, Any]]]]


def measure(lengths: Sequence[int] = LENGTHS, widths: Sequence[int] = WIDTHS, n: int = N, d: int = D) -> Measured:
    """Kind -> what was varied -> a record of each size."""
    found: Measured = {}
    for kind in KINDS:
        sizes: dict[str, list[tuple[int, int, int]]] = {
            "n": [(length, d, kind.window) for length in lengths],
            "d": [(n, width, kind.window) for width in widths],
            "window": [(n, d, window) for window in WINDOWS.get(kind.name, ())],
        }
        found[kind.name] = {varied: [_record(kind, *size) for size in some] for varied, some in sizes.items() if some}
    return found


def _record(kind: Kind, n: int, d: int, window: int) -> dict[str, Any]:
    torch.manual_seed(1)
    return {"n": n, "d": d, "window": window, **asdict(cost(kind.layer(d, window), n))}


def exponents(records: Mapping[str, Sequence[Mapping[str, Any]]], what: str) -> dict[str, float]:
    """The exponent for each size that was varied, from the upper half of its range."""
    found = {}
    for varied, some in records.items():
        upper = some[len(some) // 2 :] if len(some) > 3 else some
        found[varied] = exponent([r[varied] for r in upper], [r[what] for r in upper])
    return found


def counts(kind: Kind, window: int = WINDOW) -> dict[str, list[int]]:
    """Sequential products and path length at each of COUNTED."""
    torch.manual_seed(1)
    layer = kind.layer(SMALL, window)
    return {
        "sequential": [products_in_sequence(layer, n) for n in COUNTED],
        "path": [path_length(lambda _: layer, n) for n in COUNTED],
    }


def dilated_paths(window: int = 2) -> list[int]:
    """Path lengths of a stack of convolutions whose dilation grows by a factor of k per layer."""
    torch.manual_seed(1)

    def dilated(number: int) -> Layer:
        layer = Convolutional(SMALL, window)
        layer.dilation = window**number
        return layer

    layers: dict[int, Layer] = {}
    return [path_length(lambda i: layers.setdefault(i, dilated(i)), n) for n in COUNTED]


def report(measured: Measured) -> str:
    """Two Markdown tables: fitted exponents next to the stated ones, and the counts on the graph."""
    lines = ["| layer | stated | operations | memory | CPU time |", "|---|---|---|---|---|"]
    for kind in KINDS:
        fitted = [_powers(kind, exponents(measured[kind.name], what)) for what in ("operations", "bytes", "seconds")]
        lines.append(f"| {kind.name} | {kind.cost} | {' | '.join(fitted)} |")
    lengths = ", ".join(map(str, COUNTED))
    lines += ["", f"At n = {lengths}; k = r = {WINDOW}:", ""]
    lines += ["| layer | stated | products in sequence | stated | path length |", "|---|---|---|---|---|"]
    for kind in KINDS:
        found = {name: ", ".join(map(str, values)) for name, values in counts(kind).items()}
        lines.append(f"| {kind.name} | {kind.sequential} | {found['sequential']} | {kind.path} | {found['path']} |")
    paths = ", ".join(map(str, dilated_paths()))
    lines.append(f"| convolutional, dilated, k = 2 | 1 | as above | log_k n | {paths} |")
    return "\n".join([*lines, ""])


def _powers(kind: Kind, found: Mapping[str, float]) -> str:
    symbols = {"n": "n", "d": "d", "window": kind.cost[:1]}
    return " ".join(f"{symbols[name]}^{value:.2f}" for name, value in found.items())


def draw(measured: Measured, path: Path) -> None:
    """CPU time of each kind over length and over width, both axes logarithmic."""
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("the plot needs matplotlib: pip install s2s-toolkit[plots]") from None
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, varied, fixed in zip(axes, "nd", (f"d = {D}", f"n = {N}"), strict=True):
        for kind in KINDS:
            records = measured[kind.name][varied]
            axis.loglog([r[varied] for r in records], [1000 * r["seconds"] for r in records], "o-", label=kind.name)
        axis.set_xlabel(f"{varied} ({fixed})")
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("milliseconds of CPU time")
    axes[1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write table1.md, table1.json and table1.svg."""
    folder = Path((sys.argv[1:] if argv is None else argv)[0])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    measured = measure()
    about = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__, "seed": 1, "threads": 1}
    (folder / "table1.json").write_text(json.dumps({"about": about, "measured": measured}, indent=1) + "\n")
    (folder / "table1.md").write_text(report(measured), encoding="utf-8")
    draw(measured, folder / "table1.svg")
    print(report(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
