"""A study's table as Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

__all__ = ["FORMATS", "Table", "table"]

import csv
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s_study.cells import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from s2s_study.cells import Cell


@dataclass(frozen=True)
class Table:
    """The table as text; `lines` keep the numbers."""

    title: str
    head: list[str]
    body: list[list[str]]
    notes: list[str]
    lines: Sequence[Line]


UNKNOWN = "–"
MILLION, GIB = 1e6, 2**30


def _exponent(value: float) -> str:
    return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


SHOWN: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "steps": ("updates", lambda x: f"{x:,.0f}"),
    "tokens": ("target tokens", lambda x: f"{x:,.0f}"),
    "parameters": ("parameters, millions", lambda x: f"{x / MILLION:.3g}"),
    "flops": ("FLOPs, counted", _exponent),
    "paper_flops": ("FLOPs, time x rate", _exponent),
    "hours": ("hours", lambda x: f"{x:.3g}"),
    "memory": ("memory, GiB", lambda x: f"{x / GIB:.2f}"),
    "ppl": ("PPL", lambda x: f"{x:.2f}"),
    "nll": ("nll", lambda x: f"{x:.3f}"),
    "bleu": ("BLEU", lambda x: f"{x:.1f}"),
    "chrf": ("chrF", lambda x: f"{x:.1f}"),
    "evalb": ("F1", lambda x: f"{x:.1f}"),
    "sentences_per_second": ("sentences/s", lambda x: f"{x:.3g}"),
    "tokens_per_second": ("tokens/s", lambda x: f"{x:.3g}"),
}
"""Measure -> heading and format; any other is shown under its own name"""
EXACT = ("steps", "tokens", "parameters", "flops", "paper_flops", "hours", "memory")
"""Measures without an interval in the table: it would be zero or of no interest"""


def table(title: str, measures: Sequence[str], lines: Sequence[Line], notes: Sequence[str]) -> Table:
    """Rows and columns as text."""
    compared = [m for m in measures if any(m in line.cells and line.cells[m].difference is not None for line in lines)]
    tests = {measure: _tests(measure, lines) for measure in compared}
    head = ["", *(text for measure in measures for text in (_title(measure), *tests.get(measure, ())))]
    body = []
    for line in lines:
        texts = [line.name if line.finished == line.jobs else f"{line.name} ({line.finished} of {line.jobs} runs)"]
        for measure in measures:
            cell = line.cells[measure]
            texts += [_text(measure, cell), *(show(cell) for show in tests.get(measure, {}).values())]
        body.append(texts)
    return Table(title, head, body, list(notes), lines)


def _tests(measure: str, lines: Sequence[Line]) -> dict[str, Callable[[Cell], str]]:
    """Heading -> text of a cell, for what there is about the differences of a measure."""
    different = [cell for line in lines if (cell := line.cells[measure]).difference is not None]
    columns: dict[str, tuple[bool, Callable[[Cell], str]]] = {
        "difference": (True, lambda cell: _signed(measure, cell.difference)),
        # p over sentences is of these runs alone, so it is left to rows that have no seeds to test
        "p (sentences)": (
            any(c.p_sentences is not None and c.p_seeds is None for c in different),
            lambda cell: _p(cell.p_sentences),
        ),
        "p (seeds)": (any(c.p_holm is not None for c in different), lambda cell: _p(cell.p_holm)),
        "published": (any(c.published is not None for c in different), lambda cell: _signed(measure, cell.published)),
        "verdict": (any(c.verdict for c in different), lambda cell: cell.verdict),
    }
    return {name: show for name, (is_shown, show) in columns.items() if is_shown}


def _title(measure: str) -> str:
    return SHOWN[measure][0] if measure in SHOWN else measure


def _number(measure: str, value: float) -> str:
    text = SHOWN[measure][1](value) if measure in SHOWN else f"{value:.4g}"
    return f"−{text[1:]}" if text.startswith("-") else text


def _text(measure: str, cell: Cell) -> str:
    if cell.mean is None:
        return UNKNOWN
    text = _number(measure, cell.mean)
    if measure in EXACT or cell.low is None or cell.high is None:
        return text
    return f"{text} [{_number(measure, cell.low)}, {_number(measure, cell.high)}]"


def _signed(measure: str, value: float | None) -> str:
    if value is None:
        return ""
    text = _number(measure, abs(value))
    return text if not re.search("[1-9]", text) else f"{'+' if value > 0 else '−'}{text}"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def markdown(results: Table) -> str:
    """A pipe table; numbers are right-aligned."""
    rows = [results.head, ["---", *("---:" for _ in results.head[1:])], *results.body]
    lines = [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows]
    return "\n".join([f"**{results.title}**", "", *lines, "", *(f"- {note}" for note in results.notes), ""])


LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "−": "$-$", "–": "--"}
LATEX |= {"<": "$<$", ">": "$>$", "|": r"\textbar{}"}


def latex(results: Table) -> str:
    """A LaTeX table for the package booktabs."""
    rows = [" & ".join(map(_latex, row)) + r" \\" for row in [results.head, *results.body]]
    notes = " ".join(map(_latex, results.notes))
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(results.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(results.head) - 1)}}}", r"\toprule", rows[0], r"\midrule", *rows[1:]]
    lines += [r"\bottomrule", r"\end{tabular}", rf"\par\footnotesize {notes}", r"\end{table}", ""]
    return "\n".join(lines)


def _latex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)


def comma_separated(results: Table) -> str:
    """One line for every row and measure, with all its statistics, unrounded."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    statistics = ("low", "high", "difference", "p_sentences", "p_seeds", "p_holm", "published", "verdict")
    out.writerow(["row", "measure", "n", "mean", *statistics, "values"])
    for line in results.lines:
        for measure, cell in line.cells.items():
            values = ("" if value is None else value for value in (cell.mean, *(getattr(cell, s) for s in statistics)))
            out.writerow([line.name, measure, len(cell.values), *values, " ".join(map(repr, cell.values))])
    return file.getvalue()


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2em; }} table {{ border-collapse: collapse; }}
caption {{ text-align: left; font-weight: bold; padding-bottom: .5em; }}
th, td {{ padding: .25em .8em; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
thead {{ border-top: 2px solid; border-bottom: 1px solid; }} tbody {{ border-bottom: 2px solid; }}
</style></head><body><table><caption>{title}</caption>
<thead>{head}</thead><tbody>
{body}
</tbody></table><ul>{notes}</ul></body></html>
"""


def as_html(results: Table) -> str:
    """A complete HTML page."""

    def row(texts: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

    body = "\n".join(row(texts, "td") for texts in results.body)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in results.notes)
    return PAGE.format(title=html.escape(results.title), head=row(results.head, "th"), body=body, notes=notes)


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": comma_separated,
    "html": as_html,
}
"""File extension -> function that renders the file's contents"""
