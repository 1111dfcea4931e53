"""The components of the main score: its parts, and its tables, such as one of the labels of a treebank."""

from __future__ import annotations

__all__ = ["detail_section"]

from typing import TYPE_CHECKING, Any

from s2s_report.document import Details, Section, Table, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.metrics import Comparison
    from s2s_report.document import Block


def detail_section(compared: Sequence[Comparison]) -> Section | None:
    """Parts side by side for all runs, then each run's tables; None for a metric without parts."""
    parts = {each.system: dict(_parts(each.score.detail)) for each in compared}
    names = list(dict.fromkeys(name for details in parts.values() for name in details))
    if not names:
        return None
    rows = [[name, *(parts[system].get(name, "") for system in parts)] for name in names]
    blocks: list[Block] = [Table(["part", *parts], rows, range(1, 1 + len(parts)))]
    for each in compared:
        blocks += [
            Details(f"{_plain(name)} of {each.system}", [_table(rows)]) for name, rows in _tables(each.score.detail)
        ]
    if len(blocks) > 1:
        blocks.append(Text("Tables are sorted by their first column of numbers."))
    return Section(f"Parts of {compared[0].score.name}", blocks)


def _parts(detail: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, str]]:
    """Names and numbers; those of an inner group, such as "to 40", are prefixed with the group's name."""
    for name, value in detail.items():
        if not isinstance(value, dict):
            yield of + _plain(name), "/".join(map(_number, value if isinstance(value, list) else [value]))
        elif not _is_table(value):
            yield from _parts(value, f"{_plain(name)}: ")


def _tables(detail: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    return ((name, value) for name, value in detail.items() if _is_table(value))


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(row, dict) for row in value.values())


def _table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """A table sorted by its first column of numbers, descending: the most frequent label comes first."""
    columns = list(next(iter(rows.values())))
    ordered = sorted(rows.items(), key=lambda row: (-float(row[1][columns[0]] or 0), row[0]))
    cells = [[name, *(_number(row[column]) for column in columns)] for name, row in ordered]
    return Table(["", *map(_plain, columns)], cells, range(1, 1 + len(columns)))


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str("" if value is None else value)
