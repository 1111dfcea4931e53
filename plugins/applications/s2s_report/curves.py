"""Line charts as SVG by matplotlib, in the colours of the page, readable without colour."""

from __future__ import annotations

__all__ = ["Series", "can_draw", "chart"]

import importlib.util
import math
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

COLOURS = {f"#0000{n:02x}": f"var(--c{n})" for n in range(6)}
"""Colours that are drawn -> the page's, which depend on the reader's theme"""
INK, LINE = "#000010", "#000011"
PAGE_COLOURS = {**COLOURS, INK: "var(--ink)", LINE: "var(--line)"}
DASHES = ("-", "--", ":", "-.", (0, (1, 3)), (0, (8, 3)))
MAX_POINTS = 300
"""Maximum points of a line; more are reduced to the means of this many groups"""
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a name may have a $
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), LINE),
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Series(NamedTuple):
    """Values over updates."""

    name: str
    points: list[tuple[float, float]]
    """Pairs of update and value"""

    @property
    def finite(self) -> Series:
        """Without infinite values and NaN."""
        return Series(self.name, [point for point in self.points if all(map(math.isfinite, point))])

    @property
    def ends(self) -> str:
        """The first and the last value in words."""
        return ", ".join(f"{y:.4g} at {x:,.0f}" for x, y in (self.points[0], self.points[-1]))


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def chart(title: str, series: Sequence[Series]) -> str:
    """The picture of series with finite values, at least one each; the same series give the same picture."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file = StringIO()
    settings: Any = {**STYLE, "svg.hashsalt": title}
    with rc_context(settings):
        figure = Figure(figsize=(4.8, 2.4))
        figure.subplots_adjust(left=0.13, right=0.98, bottom=0.19, top=0.89)
        axes = figure.add_subplot()
        for i, one in enumerate(series):
            marker = "o" if len(one.points) == 1 else ""
            style: Any = {"color": list(COLOURS)[i % 6], "linestyle": DASHES[i % 6], "marker": marker}
            axes.plot(*zip(*_thinned(one.points), strict=True), linewidth=1.4, **style)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("updates")
        if len(series) > 1:  # a space first: matplotlib leaves out names that begin with _
            axes.legend(axes.lines, [f" {one.name[:24]}" for one in series], frameon=False)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return _for_page(file.getvalue())


def _for_page(svg: str) -> str:
    """The element alone, which shrinks on a narrow screen and has the page's colours."""
    svg = svg[svg.index("<svg") :].replace("<svg", '<svg style="max-width:100%;height:auto"', 1)
    for drawn, name in PAGE_COLOURS.items():
        svg = svg.replace(drawn, name)
    return svg


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    size = -(-len(points) // MAX_POINTS)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[-1][0], math.fsum(y / len(group) for _, y in group)) for group in groups]
