"""What training sources are like is counted, kept as JSON, and summed up as shares."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from s2s.data.source_shape import SAMPLED, SourceCounts, SourceShape

TEXTS = ["The dog hid.", "It is. So?\nYes", "a b  c", "", "Yes. No."]
EARLIER = {"sentences": {"1": 3}, "lines": {"1": 3}, "words": {"3": 3}, "characters": {"9": 3}, "longest": 7}


def test_single_sentences_and_lines_are_counted() -> None:
    assert SourceCounts.measure(TEXTS, 7) == SourceCounts(sampled=5, sentences=3, lines=4, longest=7)


def test_chunks_and_corpora_add_up_and_survive_json() -> None:
    total = SourceCounts()
    for text in TEXTS:
        total.add(SourceCounts.measure([text], len(text)))
    assert total == SourceCounts.measure(TEXTS, 14)
    assert SourceCounts.read(json.loads(json.dumps(asdict(total)))) == total


def test_of_a_large_chunk_a_sample_is_measured() -> None:
    assert SourceCounts.measure(["a"] * (4 * SAMPLED), 1).sampled == SAMPLED


@pytest.mark.parametrize(
    ("texts", "is_sentences", "is_lines"),
    [(TEXTS, True, True), (["a.\nB."], False, False), (["It is. So?", "a"], True, True), (["It is. So?"], False, True)],
)
def test_most_sources_are_sentences_or_lines_or_neither(texts: list[str], is_sentences: bool, is_lines: bool) -> None:
    shape = SourceShape.summarize([SourceCounts.measure(texts, 3), SourceCounts.measure(texts, 5)])
    assert shape is not None
    assert (shape.is_sentences, shape.is_lines, shape.longest) == (is_sentences, is_lines, 5)
    assert SourceShape.read(json.loads(json.dumps(shape.dump()))) == shape


@pytest.mark.parametrize("record", [None, {"words": {}}, EARLIER, {"sentences": {"50%": 1}, "lines": 1, "longest": 3}])
def test_a_record_of_another_form_is_none(record: Any) -> None:
    assert SourceShape.read(record) is None
    assert record is None or SourceCounts.read(record) is None
    assert SourceShape.summarize([]) is None
