"""The parts of a text that markup may surround."""

from __future__ import annotations

import pytest

from s2s.text.words import atoms


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Don't, 3.14!", ["Don't", ",", "3.14", "!"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
        ("E-Mail a_b", ["E", "-", "Mail", "a_b"]),
        ("👩‍👩‍👧🇩🇪👍🏽", ["👩‍👩‍👧", "🇩🇪", "👍🏽"]),
        ("go1️⃣ 2", ["go", "1️⃣", "2"]),
        ("{0} %s", ["{", "0", "}", "%", "s"]),
        ("猫がsleeps", ["猫が", "sleeps"]),
        ("한국어 말", ["한국어", "말"]),
        ("au\u00adnt www.a.de", ["au\u00adnt", "www.a.de"]),
        (" \n", []),
    ],
)
def test_atoms_are_words_and_single_characters(text: str, parts: list[str]) -> None:
    assert [text[atom.begin : atom.end] for atom in atoms(text)] == parts


def test_scripts_without_blanks_are_cut_where_tokens_end_but_not_before_a_mark() -> None:
    text = "猫が好きกำลัง"
    cuts = [1, 2, 4, 5, 6, text.index("\u0e31")]
    assert [text[a.begin : a.end] for a in atoms(text, cuts)] == ["猫", "が", "好き", "กำ", "ลัง"]
