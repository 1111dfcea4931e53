"""What an input has beside its text: read in its type, refused where the task does not read it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from s2s.compose.field_values import FieldValues
from s2s.errors import ConfigError, DataError, PluginError
from s2s.generation.candidates import Input
from s2s.generation.inputs import InputFields, as_input
from s2s.task import Example


@dataclass(kw_only=True)
class Fields:
    """What the toy task reads."""

    language: str
    """Of the output."""
    formality: float = 0.5
    """From 0 to 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.formality <= 1:
            raise ConfigError(f"formality={self.formality}: give a number from 0 to 1")


def reader(fields: type | None = Fields, **defaults: Any) -> InputFields:
    task: Any = SimpleNamespace(fields=fields, config=SimpleNamespace(name="toy"))
    return InputFields(task, (), defaults)


def test_fields_are_completed_and_have_their_types() -> None:
    read = reader()
    assert read(Input("x", fields={"language": "de"})) == {"language": "de", "formality": 0.5}
    assert read(Input("x", fields={"language": "de", "formality": 1})) == {"language": "de", "formality": 1.0}
    assert type(read(Input("x", fields={"language": "de", "formality": 1}))["formality"]) is float


def test_a_request_is_stronger_than_a_record_and_both_than_defaults() -> None:
    read = reader(language="fr", formality=0)
    assert read(Input("x")) == {"language": "fr", "formality": 0.0}
    assert read(Input("x", record={"language": "de"}))["language"] == "de"
    assert read(Input("x", fields={"language": "it"}, record={"language": "de"}))["language"] == "it"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Input("x", fields={"langauge": "de"}), r"langauge: task=toy reads no such field .* Did you mean 'language'\?"),
        (Input("x", fields={"zzz": 1}), r"zzz: task=toy reads no such field of an input\. Known: formality, language"),
        (Input("x"), r"language is missing: task=toy reads it of every input"),
        (Input("x", record={"langauge": "de"}), r"language is missing.* Did you mean 'langauge'\?"),
        (Input("x", fields={"language": 3}), r"language=3: expected str; it has no default"),
        (Input("x", fields={"language": "de", "formality": "x"}), r"formality=x: expected float; the default is 0\.5"),
        (Input("x", fields={"language": "de", "formality": 2}), r"formality=2.0: give a number from 0 to 1"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(given: Input, says: str) -> None:
    with pytest.raises(DataError, match=says):
        reader()(given)


def test_a_task_without_fields_keeps_records_and_refuses_requests() -> None:
    assert reader(None)(Input("x", record={"id": 7, "language": "de"})) == {}
    with pytest.raises(DataError, match=r"language: task=toy reads no such field of an input\.$"):
        reader(None)(Input("x", fields={"language": "de"}))
    with pytest.raises(DataError, match=r"language: task=toy reads no such field"):
        reader(None, language="de")


def test_defaults_are_completed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = reader(language="de"), []
    complete = FieldValues.complete
    monkeypatch.setattr(FieldValues, "complete", lambda *args: calls.append(args) or complete(*args))
    for _ in range(3):
        fields = read(Input("x", record={"id": 1}))
        assert fields == {"language": "de", "formality": 0.5}
        fields["language"] = "changed"
    assert len(calls) == 1


@dataclass(kw_only=True)
class Wishes:
    """What a constraint reads."""

    at_most: int = 0
    """Tokens of the output."""


def test_constraints_have_fields_of_their_own() -> None:
    task: Any = SimpleNamespace(fields=Fields, config=SimpleNamespace(name="toy"))
    read = InputFields(task, (None, Wishes), {})
    asked = {"language": "de", "at_most": 3}
    assert read(Input("x", fields=asked)) == {**asked, "formality": 0.5}
    assert read(Input("x", record=asked))["at_most"] == 3
    with pytest.raises(DataError, match="at_most=x: expected int"):
        read(Input("x", fields={**asked, "at_most": "x"}))
    with pytest.raises(PluginError, match="Wishes and Wishes both have a field 'at_most' of inputs"):
        InputFields(task, (Wishes, Wishes), {})


def test_an_input_is_made_of_a_text_a_mapping_or_an_example() -> None:
    assert as_input("x") == Input("x")
    assert as_input(Input("x", prefix="p")) == Input("x", prefix="p")
    asked = {"src": "x", "prefix": "p", "phrases": ["a", "b"], "language": "de"}
    assert as_input(asked) == Input("x", "p", ("a", "b"), {"language": "de"})
    assert as_input(Example("x", "y", {"language": "de", "document": 3})).record == {"language": "de", "document": 3}
    for wrong in (3, {"text": "x"}, {"src": 3}):
        with pytest.raises(DataError, match=r"an input is a text, or a mapping with its text as 'src', not "):
            as_input(wrong)  # type: ignore[arg-type]
    for missing in (None, math.nan, {"src": None}):
        assert as_input(missing) == Input("")  # type: ignore[arg-type]
    absent: dict[str, Any] = dict.fromkeys(("prefix", "phrases", "fields", "record"))
    assert Input("x", **absent) == Input("x")
    assert as_input({"src": "x", "prefix": None, "phrases": math.nan}) == Input("x")
    assert as_input(Example("x", fields=None)) == Input("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"prefix": 3}, "'prefix' is the text with which the output begins, not int '3'"),
        ({"prefix": ["a"]}, r"'prefix' is the text with which the output begins, not list \"\['a'\]\""),
        ({"phrases": "Hund"}, "'phrases' is a list of texts for the output, not str 'Hund'"),
        ({"phrases": [3]}, r"'phrases' is a list of texts for the output, not list '\[3\]'"),
        ({"phrases": 3}, "'phrases' is a list of texts for the output, not int '3'"),
        ({"phrases": {"a": 1}}, "'phrases' is a list of texts for the output, not dict"),
        ({"phrases": b"Hund"}, "'phrases' is a list of texts for the output, not bytes"),
        ({"prefix": np.array(["a", "b"])}, "'prefix' is the text with which the output begins, not ndarray"),
        ({"phrases": np.array([1, 2])}, "'phrases' is a list of texts for the output, not ndarray"),
        ({"phrases": np.array("Hund")}, "'phrases' is a list of texts for the output, not ndarray"),
        ({"phrases": np.array([["Hund"]])}, "'phrases' is a list of texts for the output, not ndarray"),
    ],
    ids=str,
)
def test_what_an_input_asks_of_its_output_in_another_type_is_refused(wrong: dict[str, Any], says: str) -> None:
    """In a mapping, as in an `Input`."""
    with pytest.raises(DataError, match=f"^{says}"):
        as_input({"src": "x", **wrong})
    with pytest.raises(DataError, match=f"^{says}"):
        Input("x", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"fields": ["de"]}, {"fields": "de"}, {"record": 3}, {"fields": {3: "de"}}, {"fields": np.array([1, 2])}],
    ids=str,
)
def test_fields_that_are_no_mapping_of_names_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"^'(fields|record)' maps names to values"):
        Input("x", **wrong)


def test_a_list_of_phrases_is_kept_as_it_is_in_a_mapping() -> None:
    """Or in an array, as tables have it."""
    assert Input("x", phrases=["a", "b"]).phrases == ("a", "b")  # type: ignore[arg-type]
    assert Input("x", phrases=np.array(["a", "b"])).phrases == ("a", "b")  # type: ignore[arg-type]
    assert hash(Input("x", phrases=["a"])) == hash(Input("x", phrases=("a",)))  # type: ignore[arg-type]


def test_a_source_that_is_no_text_is_refused() -> None:
    for wrong in (None, 3, b"x", ["x"]):
        with pytest.raises(DataError, match=r"^an input is a text, or a mapping with its text as 'src', not "):
            Input(wrong)  # type: ignore[arg-type]
