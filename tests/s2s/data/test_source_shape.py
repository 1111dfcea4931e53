"""What training sources are like is counted, kept as JSON, and summed up as quantiles."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest

from s2s.data.source_shape import SAMPLED, SourceCounts, SourceShape

TEXTS = ["The dog hid.", "It is. So?\nYes", "a b  c", ""]


def test_sentences_lines_words_and_characters_are_counted() -> None:
    counts = SourceCounts.measure(TEXTS, 7)
    assert counts.sentences == {1: 3, 3: 1}
    assert counts.lines == {1: 3, 2: 1}
    assert counts.words == {3: 2, 4: 1, 0: 1}
    assert counts.characters == {12: 1, 14: 1, 6: 1, 0: 1}


def test_chunks_and_corpora_add_up_and_survive_json() -> None:
    total = SourceCounts()
    for text in TEXTS:
        total.add(SourceCounts.measure([text], len(text)))
    assert total == SourceCounts.measure(TEXTS, 14)
    assert SourceCounts.read(json.loads(json.dumps(asdict(total)))) == total


def test_of_a_large_chunk_a_sample_is_measured() -> None:
    counts = SourceCounts.measure(["a"] * (4 * SAMPLED), 1)
    assert counts.words == {1: SAMPLED}


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_those_of_the_sorted_list(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [draw.randint(1, 30) for _ in range(draw.randint(1, 200))]
    shape = SourceShape.summarize([SourceCounts.measure(["x" * n for n in lengths], max(lengths))])
    assert shape is not None
    lengths.sort()
    for name, share in {"50%": 0.5, "90%": 0.9, "99%": 0.99, "100%": 1.0}.items():
        expected = next(n for k, n in enumerate(lengths, 1) if k >= share * len(lengths))
        assert shape.characters[name] == expected
    assert SourceShape.read(json.loads(json.dumps(shape.dump()))) == shape


def test_a_record_of_another_form_is_none() -> None:
    assert SourceShape.summarize([]) is None
    assert SourceShape.read(None) is None
    assert SourceShape.read({"words": {}}) is None
