"""The curves of a run: `python benchmarks/curve.py runs/NAME curve.svg` draws them from its log.jsonl."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

SMOOTH = 50
"""Updates over which the training curve is averaged"""


def records(run: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records of updates and of validations, in order."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [r for r in lines if r["kind"] == "update"], [r for r in lines if r["kind"] == "valid"]


def smoothed(values: list[float]) -> list[float]:
    """Moving average over each value and the SMOOTH - 1 values before it."""
    return [sum(values[max(0, i - SMOOTH + 1) : i + 1]) / min(i + 1, SMOOTH) for i in range(len(values))]


def draw(run: Path, target: Path) -> None:
    """Plot negative log-likelihood on the training and development sets, and the first score, against updates."""
    updates, valid = records(run)
    figure, left = plt.subplots(figsize=(7, 4))
    left.plot([r["step"] for r in updates], smoothed([r["nll"] for r in updates]), label="training nll", color="C0")
    left.plot([r["step"] for r in valid], [r["nll"] for r in valid], "o-", label="development nll", color="C1")
    left.set_xlabel("updates")
    left.set_ylabel("nats per symbol")
    left.legend(loc="center right")
    scores = [key for key in (valid[-1] if valid else {}) if key in valid[-1].get("signatures", {})]
    if scores:
        right = left.twinx()
        right.plot([r["step"] for r in valid], [r[scores[0]] for r in valid], "s--", color="C2")
        right.set_ylabel(f"{scores[0]} (dashed)", color="C2")
        right.set_ylim(bottom=0)
    left.set_title(run.name)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
