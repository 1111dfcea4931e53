"""A text and its pieces are one, and nothing around sentences is lost."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.capital_tasks import Capitals
from harness.full_stops import FullStops
from harness.shipped_plugins import shipped
from s2s.config import GenerateConfig
from s2s.data.sentence_rules import RuleSegmenter
from s2s.data.source_shape import SourceCounts, SourceShape
from s2s.errors import ConfigError, DataError
from s2s.generation import Input
from s2s.generation.piece_inputs import piece_inputs
from s2s.generation.text_layout import TextLayout, join_pieces, text_layout
from s2s.registry import Choice

if TYPE_CHECKING:
    from s2s.generation.text_layout import Unit

RULES = TextLayout(partial(RuleSegmenter, Choice()), "sentence")


@pytest.mark.parametrize("unit", ["sentence", "line", "text"])
def test_pieces_and_what_is_between_them_are_the_text(unit: Unit) -> None:
    draw = random.Random(1)
    for _ in range(1000):
        text = "".join(draw.choices("aB.!? 。”)\n\r\t\u2028\u2029\x85😀—", k=draw.randint(0, 40)))
        pieces = RULES.pieces(text, unit=unit)
        assert "".join(piece.before + piece.text + piece.after for piece in pieces) == text
        assert all(piece.text == piece.text.strip() for piece in pieces)
        assert all(piece.text for piece in pieces) or len(pieces) == 1


@pytest.mark.parametrize(
    "text",
    ["The dog hid.\n", "\n", "", "   ", "    The dog hid.", "- The dog hid.\n  - The cat sleeps.\n",
     "\r\n The dog.\r\n\r\n",
     "hello\u2028The dog hid.", "a\x0bb\x0cc\x85d\u2029e", "\tThe dog hid. \u00a0😀\u3000The cat. \t\n",
     "A.\rB."],
    ids=ascii,
)  # fmt: skip
def test_all_around_sentences_comes_back_as_it_was(text: str) -> None:
    pieces = RULES.pieces(text)
    assert join_pieces((piece.before, piece.text.upper(), piece.after) for piece in pieces) == text.upper()


@pytest.mark.parametrize(
    ("text", "n"),
    [("hello\u2028The dog hid.", 2), ("a\u2029b", 2), ("a\r\nb\rc\nd", 4), ("The dog hid.\nThe cat sleeps. So.", 3)],
    ids=ascii,
)
def test_lines_end_sentences(text: str, n: int) -> None:
    assert len(RULES.pieces(text)) == n


@pytest.mark.parametrize(
    ("texts", "joined"),
    [(["A.", "B."], "A. B."), (["甲。", "乙。"], "甲。乙。"), (["", "B."], "B."), (["A.", ""], "A.")],
)
def test_a_blank_is_added_where_the_source_has_none_and_the_output_needs_one(texts: list[str], joined: str) -> None:
    assert join_pieces([("", text, "") for text in texts]) == joined


class Running(Capitals):
    running_text = True


def shape(*sources: str) -> SourceShape:
    measured = SourceShape.summarize([SourceCounts.measure(sources, 10)])
    assert measured is not None
    return measured


ONE, SEVERAL, LINES = "The dog hid.", "The dog hid. It sleeps.", "The dog hid.\nIt sleeps."


@pytest.mark.parametrize(
    ("split", "sources", "unit"),
    [
        ("auto", None, "sentence"),
        ("auto", shape(ONE, ONE, SEVERAL), "sentence"),
        ("auto", shape(ONE, SEVERAL, SEVERAL), "line"),
        ("auto", shape(ONE, LINES, LINES), "text"),
        (True, shape(LINES), "sentence"),
        (False, shape(ONE), "text"),
    ],
)
def test_a_model_reads_what_its_training_text_had(split: Any, sources: SourceShape | None, unit: str) -> None:
    layout = text_layout(GenerateConfig(split=split), Running(), sources, None)
    assert layout is not None
    assert layout.unit == unit


def test_a_task_without_running_text_is_never_split() -> None:
    assert text_layout(GenerateConfig(split=True), Capitals(), None, None) is None


def test_a_segmenter_is_registered() -> None:
    with pytest.raises(ConfigError, match=r"segmenter=rule: no such segmenter\. Did you mean 'rules'\?"):
        text_layout(GenerateConfig(segmenter="rule"), Running(), None, shipped())
    with pytest.raises(ConfigError, match="split=maybe: give auto, true or false"):
        GenerateConfig(split="maybe")


def inputs_of(one: Input) -> list[Input]:
    layout = TextLayout(lambda _: FullStops(), "sentence")
    return piece_inputs(one, layout.pieces(one.src), layout)


def test_a_prefix_is_of_the_first_sentence_and_a_phrase_of_the_one_that_holds_it() -> None:
    first, second = inputs_of(Input("ab. c d.", "X", ("c", "a", ""), {"language": "de"}))
    assert first == Input("ab", "X", ("a",), {"language": "de"})
    assert second == Input("c d", "", ("c",), {"language": "de"})


def test_constraints_of_one_sentence_are_its_own() -> None:
    assert inputs_of(Input(" ab.", "X. Y.", ("z",))) == [Input("ab", "X. Y.", ("z",))]


def test_the_sentences_of_a_prefix_belong_to_the_first_pieces() -> None:
    assert [one.prefix for one in inputs_of(Input("ab. c.", prefix="X.  Y"))] == ["X.  ", "Y"]
    assert [one.prefix for one in inputs_of(Input("ab. c. d.", prefix="X. Y "))] == ["X. ", "Y ", ""]
    assert [one.prefix for one in inputs_of(Input("ab. c.", prefix="X. Y. Z"))] == ["X. ", "Y. Z"]


def test_a_phrase_belongs_to_the_first_piece_that_holds_it_or_the_only_one_with_words() -> None:
    assert [one.phrases for one in inputs_of(Input("ab. ac.", phrases=("a",)))] == [("a",), ()]
    assert [one.phrases for one in inputs_of(Input("1. ac.", phrases=("z",)))] == [(), ("z",)]


def test_a_phrase_that_no_sentence_holds_is_refused() -> None:
    with pytest.raises(DataError, match=r"phrase 'z': the input is decoded in 2 parts, .* give split=false"):
        inputs_of(Input("ab. c.", phrases=("z",)))
