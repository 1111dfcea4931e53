"""The contract of formats: how a line becomes an input, and an input with its output becomes lines.

They are registered in the groups `input_format` and `output_format`.
"""

from __future__ import annotations

__all__ = ["InputFormat", "OutputFormat", "Record", "one_line"]

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s.generation.candidates import Input

if TYPE_CHECKING:
    from s2s.generation.candidates import Output


@dataclass(frozen=True)
class Record:
    """One line of the input."""

    input: Input
    location: str
    """File and line, for errors"""
    columns: str
    """The input as the first columns of a tsv line"""
    fields: dict[str, Any] | None
    """The input as a JSON object; None for an empty line of a jsonl file, whose output line is empty"""
    byte_order_mark: str = ""
    """Before the text of the line, which has it no more; plain text gets it back"""
    line_end: str = "\n"
    """What ends the line of input, and with it those of the output; empty at the end of some files"""


class InputFormat(ABC):
    """How lines are read."""

    @abstractmethod
    def read(self, line: str, location: str) -> Record:
        """The input in a line, which is without its end; a DataError names the location.

        line: a line of input. location: its file and number, for errors.
        """

    def fits(self, path: str) -> bool:
        """With input_format=auto: whether this file is in the format of the outputs; otherwise it is read as text.

        path: a file of inputs.
        """
        return True


class OutputFormat(ABC):
    """How outputs are written."""

    writes_nbest: bool = False
    """Whether several outputs of an input can be written"""

    @abstractmethod
    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """The lines to write for an input.

        record: the line of input. output: the best output, with the others. nbest: number of outputs to write.
        """

    def n_lines(self, nbest: int) -> int:
        """Number of lines for every input, if it is the same, so that lines can be counted; 0: any number."""
        return 1


def one_line(text: str) -> str:
    """Line ends become spaces: one output is one line."""
    return re.sub(r"[\r\n]+", " ", text)
