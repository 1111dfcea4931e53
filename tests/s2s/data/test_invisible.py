"""Which invisible characters are left out of a text, against a loop over its characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s2s.data.invisible import BROKEN, IGNORABLE, JOINED, KEPT, MONGOLIAN, PICTURES, characters, visible

ignorable = sorted(characters(IGNORABLE))
contexts = [sorted(characters(ranges))[:: 1 + len(ranges)] for ranges in (JOINED, MONGOLIAN, BROKEN, PICTURES)]
near = st.one_of(*map(st.sampled_from, contexts), st.sampled_from(ignorable), st.sampled_from("ab \u200c\u200d\ufe0f"))


def slowly_visible(text: str) -> str:
    """One character after another, each with those before it."""
    kept = ""
    for n, character in enumerate(text):
        before = text[:n]
        carries = any(character in characters(some) and before[-1:] in {*characters(at)} for at, some in KEPT if before)
        in_picture = character == "\u200d" and before[-1:] == "\ufe0f" and before[-2:-1] in {*characters(PICTURES)}
        if character not in ignorable or carries or in_picture:
            kept += character
    return kept


@given(st.text(near, max_size=6))
def test_each_character_is_judged_by_the_one_before_it(text: str) -> None:
    assert visible(text) == slowly_visible(text)


@pytest.mark.parametrize("name", ["SOFT HYPHEN", "ZERO WIDTH SPACE", "ZERO WIDTH JOINER", "ZERO WIDTH NON-JOINER"])
@pytest.mark.parametrize("text", ["Tante", "θεία", "тётя", "דודה", "阿姨", "이모"])
def test_a_word_is_the_same_word_with_one(name: str, text: str) -> None:
    assert visible(unicodedata.lookup(name).join(text)) == text


@pytest.mark.parametrize("code", [0xFEFF, 0x2060, 0x200E, 0x202E, 0x2066, 0x61C, 0x34F, 0xFE0F, 0xE0041, 0xE0100])
def test_marks_of_order_direction_and_shape_are_left_out(code: int) -> None:
    assert visible(f"{chr(code)}The au{chr(code)}nt{chr(code)}") == "The aunt"


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian: two parts of a verb
        "ক\u09cd\u200cষ",  # Bengali: a visible virama
        "ശ\u0d4d\u200dരീ",  # Malayalam
        "ශ\u0dca\u200dරී ලංකා",  # Sinhala
        "ស្ត្រី\u200bខ្មែរ",  # Khmer: words
        "ᠨᠢᠭᠡ\u180eᠠ\u180b",  # Mongolian
        "❤\ufe0f\u200d🔥 👩\U0001f3fd\u200d🚀",
    ],
)
def test_characters_of_a_script_that_uses_them_are_kept(text: str) -> None:
    assert visible(text) == text


def test_a_second_joiner_is_one_too_many() -> None:
    assert visible("می\u200c\u200c\u00adخ \u200cخ") == "می\u200cخ خ"
