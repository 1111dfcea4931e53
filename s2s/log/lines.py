"""The lines of a run's log, with numbers of nearly constant width."""

from __future__ import annotations

__all__ = ["GAP", "MovingMeans", "UpdateLine", "apart_line", "doubt_of", "scores", "short", "valid_line"]

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.config.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_SCORES = {"kind", "step", "best", "search", "signatures", "seconds", "length_ratio"}
"""Keys of a validation's record that are not scores"""
GAP = "  "
FEW = 20
"""Fewer outputs give no share to rely on"""
MOST_EMPTY, SHORT = 0.01, 0.8
"""Share of empty outputs, and length of all outputs for that of their references, beyond which there is a warning"""


class MovingMeans:
    """Sums over the last updates: target tokens, their loss and extras, and seconds, waiting for data included."""

    def __init__(self, size: int, extras: Sequence[str] = ("nll",)) -> None:
        self.updates: deque[dict[str, float]] = deque(maxlen=size)
        self.extras = extras
        """Names of the objective's extra values"""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add an update; the loss of an update skipped for not being finite does not count."""
        skipped = not (math.isfinite(record["loss"]) and math.isfinite(record["gnorm"]))
        tokens = 0 if skipped else record["tokens"]
        sums = {name: 0.0 if skipped else tokens * record[name] for name in ("loss", *self.extras)}
        busy = record["device_seconds"]
        speed = {"device": busy, "used": (record["mfu"] or 0.0) * busy, "flops": record["flops"] or 0.0}
        seconds = record["seconds"] + record["wait"]
        self.updates.append({"seconds": seconds, "tokens": tokens, "wait": record["wait"], **speed, **sums})

    def sum(self, name: str) -> float:
        return sum(update[name] for update in self.updates)

    def per_token(self, name: str) -> float:
        return self.sum(name) / max(self.sum("tokens"), 1)

    def losses(self) -> tuple[str, str]:
        """The loss, and the objective's extras, weighted by the target tokens of each update."""
        extras = ", ".join(f"{name} {self.per_token(name):.2f}" for name in self.extras)
        return f"loss {self.per_token('loss'):.3f}", extras

    def speed(self) -> str:
        """The model's floating-point operations per second of the device's own time, and their share of its peak rate:
        other processes do not count."""
        used, flops = (self.sum(name) / max(self.sum("device"), 1e-9) for name in ("used", "flops"))
        return f"mfu {used:.0%} ({flops / 1e9:,.0f} GFLOP/s)"

    def per_second(self, name: str) -> float:
        """`tokens`: the rate; `wait`: the share of time spent waiting for data."""
        return self.sum(name) / max(self.sum("seconds"), 1e-9)

    def remaining(self, n_updates: int) -> float:
        """Estimated seconds for `n_updates` more updates."""
        return n_updates * self.sum("seconds") / max(len(self.updates), 1)


class UpdateLine(NamedTuple):
    """The progress of a run as one line."""

    step: int
    n_steps: int
    fields: tuple[tuple[int, str], ...]
    """Rank and text, in the order of display; those of rank 0 are always shown, others if there is room"""

    @staticmethod
    def of(record: Mapping[str, Any], n_steps: int, means: MovingMeans) -> UpdateLine:
        """The line after the update of `record`."""
        step = record["step"]
        loss, extras = means.losses()
        fields = [
            (1, f"{100 * step // max(n_steps, 1):>3}%"),
            (0, loss),
            (2, extras),
            (3, f"lr {scientific(record['lr'])}"),
            (7, f"gnorm {record['gnorm']:.2f}"),
            (0, f"{short(means.per_second('tokens'))} tok/s"),
            (4, means.speed() if record["mfu"] is not None else ""),
            (8, f"pad {record['padding']:.0%}"),
            (6, f"wait {means.per_second('wait'):.0%}"),
            (5, f"{record['memory'] / 1e9:.1f} GB"),
            (0, f"ETA {format_duration(means.remaining(n_steps - step))}"),
        ]
        return UpdateLine(step, n_steps, tuple(field for field in fields if field[1]))

    @property
    def head(self) -> str:
        """The number of finished updates, and of all."""
        return f"update {self.step:>{len(f'{self.n_steps:,}')},}/{self.n_steps:,}"

    def __str__(self) -> str:
        return GAP.join([self.head, *(text for _, text in self.fields)])


def valid_line(record: Mapping[str, Any], by: str = "", saved: str = "") -> str:
    """The result of a validation; if it is the best so far, by which value; and the checkpoint of the same step."""
    best = f"best by {by}" if by and record.get("best") else ""
    took = f"{record['seconds']:.1f} s" if "seconds" in record else ""
    words = [f"valid @{record['step']:,}", *scores(record), took, best, saved]
    return GAP.join(word for word in words if word)


def scores(record: Mapping[str, Any]) -> list[str]:
    """The scores of a validation; the last one names the search, and how many sentences it decoded if not all."""
    named = {name: x for name, x in record.items() if name not in NOT_SCORES and isinstance(x, float)}
    words = [f"{name} {x:.2f}" for name, x in named.items() if name.rpartition("/")[2] not in named or "/" not in name]
    if words and record.get("search"):
        n, n_all = record.get("sentences", 0), record.get("of_sentences", 0)
        words[-1] += f" ({record['search']}{f', {n:,} of {n_all:,} sentences' if n < n_all else ''})"
    return words


def apart_line(record: Mapping[str, Any]) -> str:
    """The main score of every development corpus that has its own, without the mean; empty if none has."""
    means = [name for name in record if any(other.endswith(f"/{name}") for other in record)]
    main = next((name for name in means if name != "nll"), "nll")
    words = [f"{name.rpartition('/')[0]} {x:.2f}" for name, x in record.items() if name.endswith(f"/{main}")]
    return GAP.join([f"      {main}", *words]) if means else ""


def doubt_of(record: Mapping[str, Any], advice: str) -> str:
    """A warning if many outputs of a validation are empty, or much shorter than their references; else empty.

    advice: options to try besides longer training, or empty.
    """
    n, n_empty, ratio = record.get("sentences", 0), record.get("empty", 0), record.get("length_ratio", 1.0)
    if n < FEW or (n_empty <= MOST_EMPTY * n and ratio >= SHORT):
        return ""
    return (
        f"of the {n:,} outputs of the best validation, {n_empty:,} are empty, and all together have {ratio:.0%} of the "
        f"length of their references: train longer{f', or give {advice}' if advice else ''}"
    )


def scientific(x: float) -> str:
    """0.00063 -> 6.3e-4"""
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def short(n: float) -> str:
    """41234 -> 41.2k"""
    for unit in ("", "k", "M", "G"):
        if n < 999.5 or unit == "G":
            break
        n /= 1000
    return f"{n:.{0 if not unit else 1 if n >= 10 else 2}f}{unit}"
