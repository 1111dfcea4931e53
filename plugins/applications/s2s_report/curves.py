"""Line charts as SVG: a few series over the updates, each with its own dash pattern, readable without colour."""

from __future__ import annotations

__all__ = ["Series", "chart"]

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from s2s_report.svg import svg

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 230, 58, 28, 24
DASHES = ("", "6 3", "2 2", "8 3 2 3", "1 3", "12 4")
MAX_POINTS = 300
"""Maximum points of a line; more are reduced to the means of this many groups"""


class Series(NamedTuple):
    """Values over updates."""

    name: str
    points: list[tuple[float, float]]
    """Pairs of update and value"""


def chart(title: str, series: Sequence[Series]) -> tuple[str, str]:
    """The picture, and its description in words; series without a finite value are left out."""
    drawn = [
        Series(name, found) for name, points in series if (found := [p for p in points if all(map(math.isfinite, p))])
    ]
    if not drawn:
        return "", ""
    thin = [Series(one.name, _thinned(one.points)) for one in drawn]
    xs = [x for one in thin for x, _ in one.points]
    ys = [y for one in thin for _, y in one.points]
    (x0, x1), (y0, y1) = _range(xs), _range(ys)

    def place(x: float, y: float) -> str:
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - 12)
        down = HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP)
        return f"{across:.1f},{down:.1f}"

    parts = [f'<text x="{LEFT}" y="15" font-weight="600">{escape(title)}</text>', *_axes((x0, x1), (y0, y1))]
    for i, one in enumerate(thin):
        places = [place(*point) for point in one.points]
        parts += _line(places, i)
        parts += _key(one.name, i) if len(thin) > 1 else []
    words = "; ".join(f"{one.name}: {_said(one.points[0])}, {_said(one.points[-1])}" for one in drawn)
    return svg(parts, WIDTH, HEIGHT, shrinks=True), f"{title}. {words}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _said(point: tuple[float, float]) -> str:
    return f"{point[1]:.4g} at {point[0]:,.0f}"


def _line(places: Sequence[str], i: int) -> list[str]:
    style = f"fill:none;stroke:var(--c{i % 6});stroke-width:1.6"
    if len(places) == 1:
        x, y = places[0].split(",")
        return [f'<circle cx="{x}" cy="{y}" r="3" style="{style}"/>']
    return [f'<polyline points="{" ".join(places)}" style="{style}" stroke-dasharray="{DASHES[i % len(DASHES)]}"/>']


def _key(name: str, i: int) -> list[str]:
    """The legend entry of a series: its line and name."""
    left, y = WIDTH - 140, TOP + 14 * (i + 1)
    style = f"stroke:var(--c{i % 6});stroke-width:2"
    ends = f'x1="{left}" x2="{left + 24}" y1="{y - 4}" y2="{y - 4}"'
    return [
        f'<line {ends} stroke-dasharray="{DASHES[i % len(DASHES)]}" style="{style}"/>',
        f'<text x="{left + 30}" y="{y}">{escape(name[:16])}</text>',
    ]


def _axes(x: tuple[float, float], y: tuple[float, float]) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - 12
    line = 'style="stroke:var(--line)"'
    middle = (y[0] + y[1]) / 2
    labels = [(y[0], bottom), (middle, (TOP + bottom) / 2), (y[1], TOP + 4)]
    return [
        f'<line x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}" {line}/>',
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}" {line}/>',
        *(f'<text x="{LEFT - 6}" y="{at + 4:.0f}" text-anchor="end">{_short(value)}</text>' for value, at in labels),
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{x[0]:,.0f}</text>',
        f'<text x="{right}" y="{HEIGHT - 8}" text-anchor="end">{x[1]:,.0f} updates</text>',
    ]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high > low:
        return low, high
    around = max(0.5, abs(low) / 1000)  # 0.5 vanishes in 1e30
    return low - around, high + around


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= MAX_POINTS:
        return points
    size = -(-len(points) // MAX_POINTS)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]
