"""What a generator reports when it is done."""

from __future__ import annotations

from s2s.generation.candidates import Candidate, Counts


def test_counts_are_said_where_there_are_any_and_speed_is_per_second() -> None:
    assert Counts(inputs=1500, tokens=30_000).describe({}, 2.0) == (
        "1,500 inputs in 2.0 s: 750.0 sentences/s, 15,000 tokens/s"
    )
    counts = Counts(inputs=10, empty=1, unknown=7, split=2, truncated=3, unanswered=4_000, tokens=5)
    assert counts.describe({"repaired": 6, "lost": 0}, 4.0) == (
        "10 inputs, 1 empty, 7 with unknown symbols, 2 in parts, 3 cut, 4,000 without any output, 6 repaired in 4.0 s: "
        "2.5 sentences/s, 1 tokens/s"
    )
    assert "4.0 sentences/s" in Counts(inputs=2).describe({}, 0.5)
    assert Counts(inputs=1).describe({}, 0.5).startswith("1 input in 0.5 s")
    assert Counts().describe({}, 0.0) == "0 inputs in 0.0 s: 0.0 sentences/s, 0 tokens/s"


def test_an_alignment_is_written_as_pharaoh_does() -> None:
    assert Candidate("a b", 0.0, [], [], align=[(0, 1), (12, 0)]).pharaoh() == ["0-1", "12-0"]
