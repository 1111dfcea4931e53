"""Noise of pairs: what each kind does to a text, and what it leaves as it is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.shipped_plugins import shipped
from s2s.compose.conversion import build_choice
from s2s.errors import ConfigError

KINDS = ("upper_case", "title_case", "typos", "punctuation", "emoji", "urls")
SRC, TGT = "The aunt doesn't want to sing in the village.", "Die Tante will nicht im Dorf singen."


def kind(choice: Any) -> Any:
    return build_choice(choice, "noise", shipped().registry, "task.noise[0]")


def altered(choice: Any, src: str = SRC, tgt: str = TGT) -> list[tuple[str, str]]:
    return [kind(choice).altered(src, tgt, Random(seed)) for seed in range(100)]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 9))
def test_any_pair_can_be_altered_and_depends_on_the_seed_alone(name: str, src: str, tgt: str, seed: int) -> None:
    once, again = (kind(name).altered(src, tgt, Random(seed)) for _ in range(2))
    assert once == again


def test_case_is_that_of_both_sides() -> None:
    assert set(altered("upper_case")) == {(SRC.upper(), TGT.upper())}
    assert set(altered("title_case")) == {
        ("The Aunt Doesn't Want To Sing In The Village.", "Die Tante Will Nicht Im Dorf Singen.")
    }
    assert set(altered("title_case", "“it's 3rd” (and o’er)", "ǆ")) == {("“It's 3rd” (And O’er)", "ǅ")}


def test_typing_errors_are_one_edit_in_a_word_of_the_source() -> None:
    one_each = altered({"name": "typos", "rate": 0.0})
    assert {tgt for _, tgt in one_each} == {TGT}
    for src, _ in one_each:
        changed = [(a, b) for a, b in zip(SRC.split(), src.split(), strict=True) if a != b]
        assert len(changed) <= 1, "a letter may be replaced by itself"
        assert all(abs(len(a) - len(b)) <= 1 and a[0] == b[0] for a, b in changed)
    assert len({src for src, _ in one_each}) > 50
    everywhere = altered({"name": "typos", "rate": 1.0})
    assert min(sum(a != b for a, b in zip(SRC.split(), src.split(), strict=True)) for src, _ in everywhere) >= 3
    assert set(altered("typos", "it is 12:30")) == {("it is 12:30", TGT)}


def test_punctuation_is_left_out_added_or_of_the_other_kind() -> None:
    pairs = altered("punctuation")
    assert (SRC[:-1], TGT[:-1]) in pairs
    assert (SRC.replace("'", "’"), TGT) in pairs
    assert (f"«{SRC}»", f"«{TGT}»") in pairs
    assert {src.strip("\"“”„«»'").rstrip(".").replace("’", "'") for src, _ in pairs} == {SRC[:-1]}


@pytest.mark.parametrize("name", ["emoji", "urls"])
def test_what_is_added_is_the_same_on_both_sides_at_the_same_edge(name: str) -> None:
    pairs = altered(name)
    for src, tgt in pairs:
        before, found, behind = src.partition(SRC)
        assert found
        assert (before, behind) == tgt.partition(TGT)[::2]
        assert (before == "") != (behind == "")
    assert len(set(pairs)) > 50


def test_shares_are_checked_and_have_defaults() -> None:
    assert (kind("typos").share, kind({"name": "emoji", "share": 0.2}).share) == (0.05, 0.2)
    with pytest.raises(ConfigError, match=r"task\.noise\.emoji\.share=1\.5"):
        kind({"name": "emoji", "share": 1.5})
    with pytest.raises(ConfigError, match=r"task\.noise\.typos\.rate=-1"):
        kind({"name": "typos", "rate": -1})
