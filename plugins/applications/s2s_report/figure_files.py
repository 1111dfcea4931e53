"""Figures of attention as files of their own: SVG in fixed colours, and PDF by matplotlib."""

from __future__ import annotations

__all__ = ["FigureFolder", "as_pdf", "as_svg"]

import logging
import re
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s.io import expand_user, write_file
from s2s_report.attention_lines import GAP
from s2s_report.curves import can_draw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_report.attention_lines import Drawing, Figure

logger = logging.getLogger(__name__)
FONT = 13
"""Height of letters, in pixels"""
POINT = 0.75
"""Points of a pixel"""
FALLBACKS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR")
"""For letters that matplotlib's own font lacks, where installed"""


class FigureFolder:
    """A folder of figures, made when the first is written; ConfigError if it has files already, unless `overwrite`."""

    def __init__(self, name: str, *, overwrite: bool) -> None:
        self.path = expand_user(name, "figures_folder")
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"figures_folder={name} is a file; give a folder")
        if not overwrite and self.path.is_dir() and any(self.path.iterdir()):
            raise ConfigError(f"figures_folder={name} has files already; give another folder, or overwrite=true")
        self.has_pdf = can_draw()
        if not self.has_pdf:
            logger.warning("figures_folder has SVG alone: PDF needs matplotlib (the extra plots)")

    def write(self, number: int, figures: Iterable[Figure]) -> None:
        """The files of the sentence with this number, such as 1-figure-3.svg and 1-figure-3.pdf."""
        self.path.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            write_file(self.path / f"{number}-{figure.name}.svg", as_svg(figure.drawing).encode())
            if self.has_pdf:
                write_file(self.path / f"{number}-{figure.name}.pdf", as_pdf(figure.drawing))


def as_svg(drawing: Drawing) -> str:
    """A whole file, in the page's colours on a light background."""
    colours = _colours()
    drawn = re.sub(r"var\(--c(\d)\)", lambda name: colours[int(name[1])], drawing.svg())
    return drawn.replace("<svg ", f'<svg font-family="sans-serif" font-size="{FONT}" ', 1) + "\n"


def as_pdf(drawing: Drawing) -> bytes:
    """One page, of the drawing's size, with letters as letters; the same drawing gives the same bytes."""
    from matplotlib import font_manager, rc_context
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure as Canvas

    (left, right), colours, (width, height) = drawing.columns, _colours(), drawing.size
    installed = font_manager.get_font_names()
    settings: Any = {
        "font.family": ["DejaVu Sans", *(name for name in FALLBACKS if name in installed)],
        "font.size": FONT * POINT,
        "text.parse_math": False,  # a token may have a $
    }
    with rc_context(settings):
        canvas = Canvas(figsize=(width * POINT / 72, height * POINT / 72))
        axes = canvas.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        ends = [((left, drawing.middle(one.query)), (right, drawing.middle(one.key))) for one in drawing.lines]
        shades = [(colours[one.head % 6], one.weight) for one in drawing.lines]
        axes.add_collection(LineCollection(ends, colors=shades, linewidths=2 * POINT))
        for names, x, side in ((drawing.queries, left - GAP, "right"), (drawing.keys, right + GAP, "left")):
            for row, name in enumerate(names):
                axes.text(x, drawing.middle(row) + 4, name, ha=side)
        file = BytesIO()
        canvas.savefig(file, format="pdf", transparent=True, metadata={"CreationDate": None})
    return file.getvalue()


def _colours() -> list[str]:
    """The page's colours of lines on a light background."""
    style = files("s2s_report").joinpath("style.css").read_text(encoding="utf-8")
    return re.findall(r"--c\d: (#[0-9a-f]{6})", style)[:6]
