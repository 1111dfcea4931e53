"""Reports of scores: a table for a terminal, or one JSON object."""

from __future__ import annotations

__all__ = ["as_json", "as_text"]

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from s2s.log.log import nonfinite_to_null

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.metrics import Comparison

SIGNIFICANT = 0.05
TESTS = {"bootstrap": "paired bootstrap", "randomization": "paired approximate randomisation"}


def as_json(results: Sequence[Sequence[Comparison]], n_sentences: int, n_refs: int) -> str:
    """One object; `scores` has an entry for every metric and system, the first system being the baseline."""
    scores = [_fields(c) for compared in results for c in compared]
    report = {"sentences": n_sentences, "references": n_refs, "scores": scores}
    return json.dumps(nonfinite_to_null(report), ensure_ascii=False, indent=2)


def _fields(c: Comparison) -> dict[str, Any]:
    others: dict[str, Any] = {} if c.sentences is None else {"sentences": c.sentences}
    if c.test != "bootstrap":
        others["test"] = c.test
    return {"system": c.system, **asdict(c.score), "difference": c.difference, "p_value": c.p_value, **others}


def as_text(results: Sequence[Sequence[Comparison]], n_sentences: int, n_refs: int) -> str:
    """A block for every metric: its signature, a line per sentence if requested, then one per system."""
    lines = [f"{n_sentences:,} sentences, {n_refs} reference{'s' if n_refs > 1 else ''}"]
    for compared in results:
        lines += ["", *_block(compared)]
    if any(c.p_value is not None for compared in results for c in compared):
        lines += ["", f"difference to {results[0][0].system}; p by {TESTS[results[0][-1].test]}, * below {SIGNIFICANT}"]
    return "\n".join(lines)


def _block(compared: Sequence[Comparison]) -> Iterator[str]:
    name = compared[0].score.name + ("" if compared[0].score.higher_is_better else " (lower is better)")
    yield f"{name}  {compared[0].score.signature}"
    for c in (c for c in compared if c.sentences):
        yield from ["", f"  {c.system}", *_table(c.sentences or ())]
    if compared[0].sentences:
        yield ""
    width = max(len(c.system) for c in compared)
    for c in compared:
        yield f"  {c.system:<{width}}  {c.score.value:6.2f}{_interval(c)}{_test(c)}".rstrip()
    for c in compared:
        if c.score.detail:
            yield f"  {c.system:<{width}}  {', '.join(_words(c.score.detail))}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of a table with a header and right-aligned columns."""
    head = ["sentence", *(key.replace("_", " ") for key in rows[0])]
    cells = [[str(number), *map(_cell, row.values())] for number, row in enumerate(rows, 1)]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in [head, *cells]:
        yield ("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))).rstrip()


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _interval(c: Comparison) -> str:
    return "" if c.score.low is None else f"  [{c.score.low:.2f}, {c.score.high:.2f}]"


def _test(c: Comparison) -> str:
    if c.difference is None:
        return ""
    test = "" if c.p_value is None else f"  p {c.p_value:.4f}{' *' if c.p_value < SIGNIFICANT else ''}"
    return f"  {c.difference:+.2f}{test}"


def _words(detail: dict[str, Any]) -> Iterator[str]:
    for key, value in detail.items():
        if isinstance(value, dict):  # a table, such as one of labels, is for JSON
            continue
        values = value if isinstance(value, list) else [value]
        shown = "/".join(f"{v:.3g}" if isinstance(v, float) and v < 1 else _plain(v) for v in values)
        yield f"{key.replace('_', ' ')} {shown}"


def _plain(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
