"""Records with keys: JSON lines, JSON, and the rows of Parquet and Arrow files."""

from __future__ import annotations

__all__ = ["JsonFile", "JsonLinesFile", "RecordFile"]

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import DataError, Example, Rejected
from s2s.data import numbered_lines, open_bytes
from s2s.io import parse_json
from s2s_text_corpora.columns import choose
from s2s_text_corpora.pair_file import BLANK, PairFile, Unusable, as_pair, check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 1 << 28
"""Bytes of a JSON file that is one array"""
N_SAMPLED = 20
TRANSLATION = "translation"
"""A key whose value has a text for each language, as in Hugging Face's datasets of pairs"""


class Keys(NamedTuple):
    """Where records have their sides; a dot is between the key of an object and that in it."""

    src: str = "src"
    tgt: str = "tgt"


class RecordFile(PairFile):
    """Records, whose other keys become fields."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, Any]]:
        """Records, as texts of JSON or as they are."""

    def record(self, row: Any) -> Mapping[str, Any]:
        """The record in a row; raises Unusable."""
        if not isinstance(row, Mapping):
            raise Unusable('not a JSON object, expected one such as {"src": "…", "tgt": "…"}')
        return row

    def layout(self) -> Keys:
        """By the keys of the first record, or else of all of a sample, where some lack a side."""
        records = list(self._sample())
        if not records:
            return Keys()
        try:
            return self._keys(records[0])
        except DataError:
            return self._keys(_joined(records))

    def _sample(self) -> Iterator[Mapping[str, Any]]:
        for _, row in islice(self.rows(), N_SAMPLED):
            with suppress(Unusable):
                record = None if isinstance(row, Rejected) else self.record(row)
                if record:
                    yield record

    def _keys(self, record: Mapping[str, Any]) -> Keys:
        if not self.reading.columns and ("src" in record or "tgt" in record):
            return Keys()
        names = [name for key, value in record.items() for name in _paths(key, value)]
        if not self.reading.columns:
            inside = [name for name in names if name.startswith(f"{TRANSLATION}.")]
            names = inside or [name for name in names if isinstance(_value(record, name), str)] or names
        return Keys(*choose(names, self.reading, str(self.path)))

    def decided(self) -> str:
        keys = self.layout()
        return "" if self.reading.columns or keys == Keys() else f"source '{keys.src}', target '{keys.tgt}'"

    def pair(self, row: Any, layout: Keys) -> Example | Rejected:
        record = self.record(row)
        texts = [self._text(record, key) for key in layout]
        pair = as_pair(*texts)
        taken = {key.partition(".")[0] if key not in record else key for key in layout}
        others = {key: value for key, value in record.items() if key not in taken}
        return replace(pair, fields=others) if isinstance(pair, Example) and others else pair

    def _text(self, record: Mapping[str, Any], key: str) -> str:
        text = _value(record, key)
        if isinstance(text, str):
            check_text(key, text)
            return text
        expected = ', expected an object such as {"src": "…", "tgt": "…"}' if key in Keys() else ""
        raise Unusable(f'"{key}" is {"missing" if text is None else "not text"}{expected}')


def _joined(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """All keys, each with its first value that is not null; of objects in records, all keys, too."""
    joined: dict[str, Any] = {}
    for record in records:
        for key, value in record.items():
            before = joined.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                joined[key] = _joined([before, value])
            elif before is None:
                joined[key] = value
    return joined


def _paths(key: str, value: Any) -> list[str]:
    return [f"{key}.{inner}" for inner in value] if isinstance(value, Mapping) else [key]


def _value(record: Mapping[str, Any], key: str) -> Any:
    """The value of a key, or of one in an object; None if there is none."""
    if key in record:
        return record[key]
    outer, _, inner = key.partition(".")
    inside = record.get(outer)
    return inside.get(inner) if isinstance(inside, Mapping) else None


class JsonLinesFile(RecordFile):
    """An object a line."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        for number, line in numbered_lines(self.path, self.reading.invalid):
            yield number, BLANK if isinstance(line, str) and (not line or line.isspace()) else line

    def record(self, row: Any) -> Mapping[str, Any]:
        try:
            return super().record(parse_json(row) if isinstance(row, str) else row)
        except ValueError as error:
            raise Unusable(f'not JSON ({error}), expected an object such as {{"src": "…", "tgt": "…"}}') from None


class JsonFile(JsonLinesFile):
    """An array of objects, or an object with such an array; or, in spite of the name, an object a line."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        return super().rows() if self._has_lines() else enumerate(self._array(), 1)

    def _has_lines(self) -> bool:
        """Whether the first line is an object that has no array of objects."""
        lines = (line for _, line in numbered_lines(self.path, "drop") if isinstance(line, str) and line.strip())
        try:
            first = parse_json(next(lines, "{}"))
        except ValueError:
            return False
        return isinstance(first, Mapping) and _array_in(first) is None

    def _array(self) -> list[Any]:
        with open_bytes(self.path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise DataError(f"{self.path}: more than {LARGEST:,} bytes; write an object a line: jq -c '.[]'")
        try:
            array = _array_in(parse_json(data))
        except ValueError as error:
            raise DataError(f"{self.path}: not JSON ({error})") from None
        if array is None:
            raise DataError(f"{self.path}: expected an array of objects, or an object a line")
        return array


def _array_in(value: Any) -> list[Any] | None:
    """The array that a value is or has, the first one of objects; None if there is none."""
    if isinstance(value, list):
        return value
    inside = value.values() if isinstance(value, Mapping) else ()
    return next((some for some in inside if isinstance(some, list) and some and isinstance(some[0], Mapping)), None)
