"""Inline pictures."""

from __future__ import annotations

__all__ = ["svg"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def svg(parts: Iterable[str], width: float, height: float, *, shrinks: bool = False) -> str:
    """An SVG of this size, in pixels; one that `shrinks` becomes smaller on a narrow screen."""
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    style = ' style="max-width:100%;height:auto"' if shrinks else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}{style}>{"".join(parts)}</svg>'
