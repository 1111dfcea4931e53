"""Outputs with their alignments: format=aligned."""

from __future__ import annotations

__all__ = ["AlignedOutput"]

from typing import TYPE_CHECKING

from s2s.generation import Generator, Output, OutputFormat, Record, one_line

if TYPE_CHECKING:
    from s2s import Choice


class AlignedOutput(OutputFormat):
    """The output and its alignment, as in `ein Hund ||| 0-0 1-1`: Marian's layout, in Pharaoh format."""

    def __init__(self, config: Choice, generator: Generator) -> None:
        pass

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [f"{one_line(output.hyp)} ||| {' '.join(output.best.pharaoh())}"]
