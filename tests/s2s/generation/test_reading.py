"""Inputs as segments: as they are, in parts, or cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from harness.capital_tasks import Capitals
from harness.full_stops import FullStops
from s2s.config import GenerateConfig
from s2s.errors import PluginError
from s2s.generation import Input, segments
from s2s.generation.candidates import Counts
from s2s.generation.inputs import RequestConstraints
from s2s.generation.reading import Reader
from s2s.generation.segments import Segment
from s2s.generation.source_text import SourceText
from s2s.generation.text_layout import TextLayout, text_layout
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.errors import DataError
    from s2s.task import Task


class Same(RequestConstraints):
    """One constraint for each sentence."""

    def __init__(self, constraint: Any) -> None:
        self.constraint = constraint

    def for_sentence(self, config: GenerateConfig, task: Task, sentence: Input) -> Any:
        return self.constraint


@dataclass(kw_only=True)
class Wishes:
    """Fields of inputs."""

    at_most: int = 0
    """A number."""


class Asked(RequestConstraints):
    """A constraint of each sentence that is what its field says."""

    fields = Wishes

    def for_sentence(self, config: GenerateConfig, task: Task, sentence: Input) -> Any:
        return sentence.fields["at_most"] or None


def test_a_constraint_reads_the_fields_that_it_declares() -> None:
    reader = Reader(Capitals(), GenerateConfig(input_fields={"at_most": 5}), 9, Counts(), [Asked()])
    inputs = [Input("a"), Input("b", fields={"at_most": 2}), Input("c", record={"at_most": 3, "id": 1})]
    segments, error = reader([*inputs, Input("d", fields={"at_mots": 2}), Input("e")])
    assert [one.constraint for (one,) in segments] == [5, 2, 3]
    assert str(error).startswith("at_mots: task= reads no such field of an input. Did you mean 'at_most'?")


def test_an_input_that_two_plugins_constrain_is_refused() -> None:
    reader = Reader(Capitals(), GenerateConfig(input_fields={"at_most": 5}), 9, Counts(), [Asked(), Same(1)])
    segments, error = reader([Input("a")])
    assert segments == []
    names = f"{__name__}.Asked and {__name__}.Same"
    assert str(error) == f"{names} all constrain the output of this input; ask for one of them"


def test_two_plugins_of_the_same_name_do_not_replace_one_another() -> None:
    reader = Reader(Capitals(), GenerateConfig(), 9, Counts(), [Same(1), Same(2)])
    segments, error = reader([Input("a")])
    assert segments == []
    names = f"{__name__}.Same and {__name__}.Same"
    assert str(error) == f"{names} all constrain the output of this input; ask for one of them"


class Again(RequestConstraints):
    """Asks for a second search of every output that is not in capitals."""

    def revision(self, config: GenerateConfig, task: Task, sentence: Input) -> Any:
        return lambda output: None if output.isupper() else sentence.src


def test_a_segment_is_searched_again_if_its_output_lacks_something() -> None:
    layout = TextLayout(lambda _: FullStops(), "sentence")
    reader = Reader(Capitals(), GenerateConfig(), 4, Counts(), [Again(), Same(None)], layout)
    ((first, second), (empty,)), _ = reader([Input("ab. cd."), Input("")])
    assert (first.again("AB"), empty.again("ab")) == (None, None)
    assert second.again("cd") == replace(second, constraint="cd", revision=None)
    segments, error = Reader(Capitals(), GenerateConfig(), 9, Counts(), [Again(), Again()])([Input("a")])
    assert segments == []
    assert "all constrain the output of this input" in str(error)


def test_a_constraint_that_does_not_read_prefixes_is_no_reason_to_ignore_them() -> None:
    reader = Reader(Capitals(), GenerateConfig(), 9, Counts(), [Same(1)])
    segments, error = reader([Input("a"), Input("b", prefix="c")])
    assert [one.constraint for (one,) in segments] == [1]
    assert str(error) == "prefix and phrases: no loaded plugin constrains outputs to them; leave them out"


def test_what_a_part_encodes_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []

    def counted(src: str, **others: Any) -> Example:
        sources.append(src)
        return Example(src, **others)

    monkeypatch.setattr(segments, "Example", counted)
    Reader(Capitals(), GenerateConfig(), 9, Counts(), ())([Input("a"), Input("b")])
    assert sources == ["a", "b"]


def read(
    texts: Sequence[str], too_long: Literal["split", "truncate", "error"] = "split", constraint: Any = None
) -> tuple[list[list[tuple[str, int, Any]]], Counts, DataError | None]:
    """Text, number of tokens and constraint of each segment, of at most 4 tokens, eos included."""
    counts = Counts()
    layout = TextLayout(lambda _: FullStops(), "text")
    reader = Reader(Capitals(), GenerateConfig(too_long=too_long, keep=[]), 4, counts, [Same(constraint)], layout)
    segments, error = reader([Input(text) for text in texts])
    assert error or ["".join(one.before + one.src + one.after for one in of) for of in segments] == list(texts)
    return [[(one.src, len(one.ids), one.constraint) for one in of] for of in segments], counts, error


def test_what_fits_with_its_end_is_left_whole() -> None:
    segments, counts, error = read(["abc", "a.b", "", " "])
    assert segments == [[("abc", 3, None)], [("a.b", 2, None)], [("", 0, None)], [("", 0, None)]]
    assert (counts.split, counts.truncated, error) == (0, 0, None)


@pytest.mark.parametrize(
    ("text", "parts", "truncated"),
    [
        ("ab.cd", [("ab", 2), ("cd", 2)], 0),
        ("ab.cd.ef", [("ab", 2), ("cd", 2), ("ef", 2)], 0),
        ("ab..12.cd", [("ab", 2), ("12", 0), ("cd", 2)], 0),
        ("ab.cdefg", [("ab", 2), ("cdefg", 3)], 1),
        ("abcdef.gh.ijkl", [("abcdef", 3), ("gh", 2), ("ijkl", 3)], 1),
        (" ..ab.cd.. ", [("ab", 2), ("cd", 2)], 0),
    ],
)
def test_what_is_too_long_is_split_and_counted_once(text: str, parts: list[tuple[str, int]], truncated: int) -> None:
    segments, counts, _ = read([text])
    assert [one[:2] for one in segments[0]] == parts
    assert (counts.split, counts.truncated) == (1, truncated)


@pytest.mark.parametrize("text", ["abcd", "abcd1"])
def test_a_single_sentence_is_cut_as_it_was_given_and_not_counted_as_split(text: str) -> None:
    segments, counts, _ = read([text])
    assert segments == [[(text, 3, None)]]
    assert (counts.split, counts.truncated) == (0, 1)


def test_nothing_is_split_where_it_is_to_be_cut_or_has_a_constraint_of_its_own() -> None:
    for options in ({"too_long": "truncate"}, {"constraint": "some"}):
        segments, counts, _ = read(["ab.cd"], **options)  # type: ignore[arg-type]
        assert segments == [[("ab.cd", 3, options.get("constraint"))]]
        assert (counts.split, counts.truncated) == (0, 1)


@pytest.mark.parametrize("text", ["", " \t", "12"])
def test_what_an_output_should_contain_needs_an_input_that_has_one(text: str) -> None:
    segments, _, error = read([text], constraint="some")
    assert segments == []
    assert str(error) == "an input without tokens has an empty output; leave out its prefix and phrases"


def test_a_task_that_needs_no_input_has_an_output_for_an_empty_one() -> None:
    class Unconditional(Capitals):
        def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
            return [[4] for _ in lines]

    segments, error = Reader(Unconditional(), GenerateConfig(), 4, Counts(), ())([Input(""), Input(" ")])
    assert (segments, error) == ([[Segment("", [4])], [Segment(" ", [4])]], None)


def test_an_error_comes_with_what_was_before_it() -> None:
    segments, counts, error = read(["ab", "abcd", "c"], too_long="error")
    assert segments == [[("ab", 2, None)]]
    assert str(error) == (
        "an input of 5 tokens is longer than the 4 allowed (max_source, or the model's own limit): 'abcd'; shorten it, "
        "or give too_long=split"
    )
    assert counts.truncated == 0


@pytest.mark.parametrize(("n", "shown"), [(60, "'" + 60 * "x" + "'"), (61, "'" + 60 * "x" + "'…")])
def test_of_a_long_line_the_beginning_is_shown(n: int, shown: str) -> None:
    *_, error = read(["x" * n], too_long="error")
    assert f"limit): {shown}; shorten" in str(error)


@pytest.mark.parametrize("given", [Input("a", prefix="b"), Input("a", phrases=("", "b"))], ids=str)
def test_what_an_output_should_contain_needs_a_plugin(given: Input) -> None:
    reader = Reader(Capitals(), GenerateConfig(), 9, Counts(), ())
    segments, error = reader([Input("c", phrases=("",)), given])
    assert segments == [[Segment("c", [6])]]
    assert str(error) == "prefix and phrases: no loaded plugin constrains outputs to them; leave them out"


@pytest.mark.parametrize("ids", [[5, 30], [-1], [4, 5, -7]], ids=str)
def test_ids_that_no_source_token_has_are_refused(ids: list[int]) -> None:
    """The embedding would be read outside of its memory."""

    class Wide(Capitals):
        def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
            return [[], ids]

    reader = Reader(Wide(), GenerateConfig(), 4, Counts(), ())
    with pytest.raises(PluginError) as caught:
        reader([Input("a"), Input("b")])
    assert str(caught.value) == f"Wide.encode_inputs: expected ids below 30, vocab.src, got {ids}"
    with pytest.raises(PluginError, match=r"^Wide\.encode_inputs gave 2 lists of ids for 1 inputs$"):
        reader([Input("a")])


def test_of_running_text_a_task_reads_what_is_visible() -> None:
    """Tokenisers of older runs keep soft hyphens; a segment is the text as it came."""

    class Listed(Capitals):
        def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
            return [[4 + len(line)] for line in lines]

    text = "\u00ada\u00adb\u200d"
    layout = TextLayout(lambda _: FullStops(), "sentence")
    for given, n_read in ((layout, 2), (None, 5)):
        segments, _ = Reader(Listed(), GenerateConfig(), 9, Counts(), (), given)([Input(text)])
        source = SourceText(text, "ab", (1, 3)) if given else None
        assert segments == [[Segment(text, [4 + n_read], source=source)]]


@dataclass(kw_only=True)
class Speaks:
    """Fields of inputs."""

    language: str
    """That of the source."""


class Languages(Capitals):
    """Sources in the language that a field names."""

    fields, running_text = Speaks, True

    def source_language(self, fields: Mapping[str, Any]) -> str:
        return str(fields["language"])


@pytest.mark.parametrize("longest", [100, 6])
def test_sentences_are_those_of_the_language_of_each_input(longest: int) -> None:
    """In German, a number before a capital is an ordinal; also where only what is too long is split."""
    task, text = Languages(), "am 3. Mann. Da."
    config = GenerateConfig(split=longest > 6)
    layout = text_layout(config, task, None, None)
    reader = Reader(task, config, longest, Counts(), [], layout)
    segments, _ = reader([Input(text, fields={"language": code}) for code in ("de", "en")])
    assert [[one.src for one in some] for some in segments] == [["am 3. Mann.", "Da."], ["am 3.", "Mann.", "Da."]]


@pytest.mark.parametrize(("unknown", "count"), [((), 2), ((0.0, 0.5), 0)])
def test_inputs_with_unknown_symbols_are_counted_unless_the_model_is_trained_on_unknown_words(
    unknown: tuple[float, ...], count: int
) -> None:
    class Spelling(Capitals):
        def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
            return [[5 if "a" <= c <= "z" else self.vocab.unk for c in line] for line in lines]

    task, counts = Spelling(), Counts()
    task.vocab = replace(task.vocab, unknown=unknown)
    Reader(task, GenerateConfig(), 99, counts, (), TextLayout(lambda _: FullStops(), "sentence"))(
        [Input("ab"), Input("a★"), Input("★a. b★"), Input("")]
    )
    assert counts.unknown == count
