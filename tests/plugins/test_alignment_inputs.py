"""Inputs whose outputs are aligned because of what they contain: inline elements, and parts that are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.copying_model import LETTERS, Says, Strokes
from harness.generators import generator_of
from harness.shipped_plugins import generate_config, shipped
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.generation import Input, Output
from s2s.text import AnnotatedText, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.task import Example


class Running(Strokes):
    """Running text; what is read is recorded."""

    running_text = True

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def covers(self, text: str) -> bool:
        return set(text) <= {*LETTERS, " "}

    def encode_inputs(self, inputs: Sequence[Example]) -> list[list[int]]:
        self.read += [one.src for one in inputs]
        return super().encode_inputs(inputs)


def outputs(inputs: list[Any], backwards: bool = False, **options: Any) -> tuple[list[Output], Running]:
    task, config = Running(), generate_config(format="jsonl", **options)
    search = BeamSearch(BeamConfig(beam=4))
    return list(generator_of(Says(backwards), task, search, config, shipped())(inputs)), task


@pytest.mark.parametrize("backwards", [False, True])
def test_elements_are_around_the_words_that_the_model_attends_to(backwards: bool) -> None:
    spans = (Span(0, 5, "<b>", "</b>"), Span(3, 5, "<i>", "</i>"), Span(9, 9, "<br/>"))
    (output,), task = outputs([Input("ab cd ef gh", spans=spans)], backwards)
    assert task.read == ["ab cd ef gh"], "it is decoded whole"
    (plain,), _ = outputs(["ab cd ef gh"], backwards)
    assert output.hyp == plain.hyp
    assert output.best.annotated is not None
    expected = "<br/>hg fe <b><i>dc</i> ba</b>" if backwards else "<b>ab <i>cd</i></b> ef <br/>gh"
    assert output.best.annotated.render() == expected


def test_inputs_without_elements_and_parts_are_not_aligned() -> None:
    some, _ = outputs(["ab cd", Input("ab cd", spans=(Span(0, 2, "<b>", "</b>"),)), "e"])
    assert [bool(one.best.links) for one in some] == [False, True, False]
    assert [one.best.annotated for one in some] == [None, AnnotatedText("ab cd", (Span(0, 2, "<b>", "</b>"),)), None]


@pytest.mark.parametrize(
    "text", ["😀 ab cd", "ab 😀 cd", "ab😀 cd", "ab cd 😀", "(ab) cd", "😀", "😀 🚀", "ab «cd» 猫"]
)
def test_symbols_that_no_token_spells_are_not_read_and_come_through(text: str) -> None:
    (output,), task = outputs([text])
    assert output.hyp == text
    assert set("".join(task.read)) <= {*LETTERS, " "}


@pytest.mark.parametrize(("backwards", "hyp"), [(False, "ab cd"), (True, "ab dc")])
def test_a_kept_part_is_read_and_if_the_output_lacks_it_the_text_without_it(backwards: bool, hyp: str) -> None:
    kept = Input("ab cd", spans=(Span(0, 2, "<code>", "</code>", keep=True),))
    (output, other), task = outputs([kept, "e f"], backwards)
    assert set(task.read) == {"ab cd", "cd", "e f"}, "both ways to read it are encoded"
    assert (output.hyp, other.hyp) == (hyp, "f e" if backwards else "e f")
    assert output.best.annotated is not None
    assert output.best.annotated.render() == f"<code>ab</code> {hyp[3:]}"


def test_nothing_is_taken_out_without_kinds() -> None:
    (output,), task = outputs(["ab 😀 cd"], keep=[])
    assert task.read == ["ab 😀 cd"]
    assert output.hyp == "ab ? cd"


def test_a_prefix_stays_at_the_beginning() -> None:
    (output,), _ = outputs([Input("😀 ab cd", prefix="ab")])
    assert output.hyp == "ab 😀 cd"
