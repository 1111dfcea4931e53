"""Texts that outputs have exactly as they are given, whatever the model can write of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from s2s.errors import DataError
from s2s.generation import Input
from s2s.generation.kept_parts import KeptParts, Part
from s2s.generation.literals import Literal, Literals, Required

if TYPE_CHECKING:
    from s2s.task import Task

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,?"
KINDS = ("placeholders", "urls", "emails", "symbols")


def _spell(text: str) -> bytes:
    return " ".join(["", *text.split()]).encode()


def _covers(text: str) -> bool:
    return set(text) <= {*LETTERS, " "}


def _literals() -> Literals:
    spellings = [b"", b" ", *(letter.encode() for letter in LETTERS)]
    task = SimpleNamespace(spellings=lambda: spellings, spell=_spell)
    return Literals(cast("Task", task), KeptParts(KINDS, _covers))


def _prefix(text: str, src: str = "a dog", kept: tuple[Part, ...] = ()) -> Literal:
    required, _, _ = _literals().required(Input(src, prefix=text), kept, is_complete=False)
    assert required.prefix
    return required.prefix


def _continued(prefix: Literal, output: str) -> str:
    return prefix.before(output[prefix.n_written(output) :])


@pytest.mark.parametrize(
    ("text", "required", "output", "whole"),
    [
        ("Die Ta", "Die Ta", "Die Tante singt.", "Die Tante singt."),
        ("Die Tante ", "Die Tante ", "Die Tante singt.", "Die Tante singt."),
        ("Die Ta\u00adn", "Die Tan", "Die Tante singt.", "Die Ta\u00adnte singt."),
        ("Die  Tante", "Die  Tante", "Die Tante singt.", "Die  Tante singt."),
        (" ", "", "Die Tante.", " Die Tante."),
        ("★", "", "Die Tante.", "★ Die Tante."),
        ("„", "", "Die Tante.", "„Die Tante."),
        ('"Die', "Die", "Die Tante.", '"Die Tante.'),
        ("Die ★", "Die ", "Die Tante.", "Die ★ Tante."),
        ("Die ★ ", "Die ", "Die Tante.", "Die ★ Tante."),
        ("Die {0} Ta", "Die Ta", "Die Tante.", "Die {0} Tante."),
        ("Die https://a.de/b?c=1", "Die ", "Die Tante.", "Die https://a.de/b?c=1 Tante."),
        ("Die Ha狗us Ta", "Die Ta", "Die Tante.", "Die Ha狗us Tante."),
        ("Die Tante. ", "Die Tante. ", "Die Tante.", "Die Tante. "),
    ],
)
def test_a_prefix_is_kept_as_it_is(text: str, required: str, output: str, whole: str) -> None:
    prefix = _prefix(text)
    assert prefix.required == required
    assert _continued(prefix, output) == whole
    assert whole.startswith(text)


def test_a_prefix_that_ends_in_a_placeholder_of_the_source_has_the_rest_of_it() -> None:
    kept = (Part(4, 7, is_unknown=True), Part(8, 11, is_unknown=True))
    assert _prefix("Die {", "the {0} {1}", kept).text == "Die {0}"
    assert _prefix("Die {0} {", "the {0} {1}", kept).text == "Die {0} {1}"
    assert _prefix("Die {x", "the {0} {1}", kept).text == "Die {x"


def test_kept_parts_in_a_prefix_are_given_as_often_as_it_has_them() -> None:
    kept = [Part(n, n + 1, is_unknown=True) for n in (0, 4, 8)]
    _, _, parts = _literals().required(Input("★ a ★ b ★", prefix="★ A ★"), kept, is_complete=False)
    assert [part.is_given for part in parts] == [True, True, False]


@pytest.mark.parametrize(
    ("phrase", "required", "output", "whole"),
    [
        ("Hund", ("Hund",), "Der Hund.", "Der Hund."),
        ("Hund ★", ("Hund ",), "Der Hund bellt.", "Der Hund ★ bellt."),
        ('"Hund"', ("Hund ",), "Hunde, der Hund.", 'Hunde, der "Hund".'),
        ("Hu\u00adnd", ("Hund",), "Der Hund.", "Der Hu\u00adnd."),
        ("★", (), "Der Hund.", "Der Hund. ★"),
        ("★", (), "Der ★ Hund.", "Der ★ Hund."),
        (" ", (), "Der Hund.", "Der Hund."),
    ],
)
def test_a_phrase_is_put_where_the_model_wrote_what_it_can(
    phrase: str, required: tuple[str, ...], output: str, whole: str
) -> None:
    found, sought, _ = _literals().required(Input("a dog", phrases=(phrase,)), (), is_complete=False)
    assert sought.phrases == required
    for literal in found.phrases:
        output = literal.put_into(output)
    assert output == whole


@pytest.mark.parametrize(
    ("prefix", "src", "whole"),
    [("Der", "😀", "Der 😀"), ("😀 ", "😀 {0}", "😀 {0}"), ("Der", "", "Der"), ("Der 😀", "😀", "Der 😀")],
)
def test_a_text_without_words_is_copied_behind_the_prefix(prefix: str, src: str, whole: str) -> None:
    assert Required(_prefix(prefix, src)).copied(src) == whole


def test_tasks_whose_outputs_are_not_spelt_keep_their_own_check() -> None:
    def unspelt(_: str) -> bytes:
        raise DataError("not asked")

    task = SimpleNamespace(spellings=lambda: None, spell=unspelt)
    literals = Literals(cast("Task", task), KeptParts((), _covers))
    source = Input("a", prefix="★", phrases=("b",))
    required, sought, _ = literals.required(source, (), is_complete=False)
    assert required == Required(Literal("★", "★", "★", is_open=True))
    assert sought == source
