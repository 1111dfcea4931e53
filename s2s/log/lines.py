"""The words and numbers of a line, each in a form of constant width or nearly so."""

from __future__ import annotations

__all__ = ["Means", "UpdateLine", "duration", "scores", "short", "valid_line"]

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_SCORES = {"kind", "step", "best", "search", "signatures"}
"""Keys of a validation's record that are no scores"""


class Row(NamedTuple):
    """What the line needs of an update."""

    seconds: float
    """Of the clock, since the update before"""
    n_tokens: int
    loss: float
    extras: tuple[float, ...]
    """The objective's extra values"""
    wait: float
    """Seconds of them that went into waiting for data"""
    used: float
    """Seconds that the products alone would take at the machine's rate"""


@dataclass
class Means:
    """Moving means over the last updates: losses per symbol, and time, waiting for data included."""

    size: int
    extras: Sequence[str] = ("nll",)
    """Names of the objective's extra values"""
    rows: deque[Row] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = deque(maxlen=self.size)

    def add(self, seconds: float, record: Mapping[str, Any]) -> None:
        """Take in one update that took so long; one that was skipped for what is not finite taught nothing."""
        learnt = math.isfinite(record["loss"]) and math.isfinite(record["gnorm"])
        n_tokens, loss = (record["tokens"], record["loss"]) if learnt else (0, 0.0)
        extras = tuple(record[name] if learnt else 0.0 for name in self.extras)
        used = (record["mfu"] or 0.0) * record["seconds"]
        self.rows.append(Row(seconds, n_tokens, loss, extras, record["wait"], used))

    def loss(self) -> str:
        """The loss and the objective's extra values, each weighted by the target tokens of its update."""
        n_tokens = max(self.n_tokens(), 1)
        loss, *extras = (
            sum(row.n_tokens * (row.loss, *row.extras)[i] for row in self.rows) / n_tokens
            for i in range(1 + len(self.extras))
        )
        words = ", ".join(f"{name} {x:.2f}" for name, x in zip(self.extras, extras, strict=True))
        return f"loss {loss:.3f}" + (f" ({words})" if words else "")

    def speed(self) -> float:
        """Target symbols per second."""
        return self.n_tokens() / max(self.seconds(), 1e-9)

    def remaining(self, n_updates: int) -> float:
        """Seconds that so many more updates will take."""
        return n_updates * self.seconds() / max(len(self.rows), 1)

    def n_tokens(self) -> int:
        return sum(row.n_tokens for row in self.rows)

    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    def share(self, name: str) -> float:
        """Of the time, that of `wait` or `used`."""
        return sum(getattr(row, name) for row in self.rows) / max(self.seconds(), 1e-9)


@dataclass(frozen=True)
class UpdateLine:
    """Where the run stands, in three parts, since a terminal draws a bar after the first."""

    step: int
    n_steps: int
    tail: str

    @staticmethod
    def of(record: Mapping[str, Any], n_steps: int, means: Means) -> UpdateLine:
        """The line after the update of `record`."""
        parts = [
            means.loss(),
            f"lr {scientific(record['lr'])}",
            f"gnorm {record['gnorm']:.2f}",
            f"{short(means.speed())} tok/s",
            *([f"mfu {means.share('used'):.0%}"] if record["mfu"] is not None else []),
            f"pad {record['padding']:.0%}",
            f"wait {means.share('wait'):.0%}",
            f"{record['memory'] / 1e9:.1f} GB",
            f"ETA {duration(means.remaining(n_steps - record['step']))}",
        ]
        return UpdateLine(record["step"], n_steps, "  ".join(parts))

    @property
    def head(self) -> str:
        width = len(f"{self.n_steps:,}")
        return f"update {self.step:>{width},}/{self.n_steps:,}"

    @property
    def percent(self) -> str:
        return f"{100 * self.step // max(self.n_steps, 1):>3}%"

    def __str__(self) -> str:
        return f"{self.head}  {self.percent}  {self.tail}"


def valid_line(record: Mapping[str, Any], saved: str = "") -> str:
    """What a validation found, and where the checkpoint of the same step lies."""
    best = ["best"] if record.get("best") else []
    return "  ".join([f"valid @{record['step']:,}", *scores(record), *best, *([saved] if saved else [])])


def scores(record: Mapping[str, Any]) -> list[str]:
    """The numbers of a validation, the last one with how outputs were found."""
    words = [f"{name} {x:.2f}" for name, x in record.items() if name not in NOT_SCORES and isinstance(x, float)]
    if words and record.get("search"):
        words[-1] += f" ({record['search']})"
    return words


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


def duration(seconds: float) -> str:
    """Days, hours, minutes and seconds: 05:41:10, 1d 05:41:10."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{f'{days}d ' if days else ''}{h:02}:{m:02}:{s:02}"
