"""The forms in which an option names corpora."""

from __future__ import annotations

from typing import Any

import pytest

from s2s.data.corpus_options import CorpusOptions, FileForm, parse_corpora
from s2s.errors import ConfigError

FORM = FileForm(
    corpus="lines",
    is_one=lambda value: len(value) == 2 and all(isinstance(v, str) for v in value),
    accepts=lambda paths: len(paths) == 2,
    name_of=lambda paths: paths[0].stem,
    expected="two files, as in {key}=[a,b]",
)


def parsed(value: Any) -> list[CorpusOptions]:
    return parse_corpora(value, "task.train", FORM)


def files(*names: str, **changes: Any) -> CorpusOptions:
    """What two file names give."""
    given: dict[str, Any] = {"name": names[0], "corpus": "lines", "options": {"files": list(names)}, **changes}
    return CorpusOptions(**given)


@pytest.mark.parametrize(
    ("value", "corpora"),
    [
        (None, []),
        ("", []),
        ([], []),
        ({}, []),
        (["a", "b"], [files("a", "b")]),
        (
            {"files": ["a", "b"], "weight": 2, "x": 1},
            [files("a", "b", weight=2.0, options={"files": ["a", "b"], "x": 1})],
        ),
        ({"files": ["a", "b"], "name": "n"}, [files("a", "b", name="n")]),
        ({"corpus": "made", "x": 1}, [CorpusOptions("made", "made", {"x": 1})]),
        (
            [["a", "b"], {"corpus": "made"}],
            [files("a", "b", key="task.train[0]"), CorpusOptions("made", "made", {}, key="task.train[1]")],
        ),
        (
            {"news": ["a", "b"], "web": {"corpus": "made"}},
            [
                files("a", "b", name="news", key="task.train.news"),
                CorpusOptions("web", "made", {}, key="task.train.web"),
            ],
        ),
    ],
    ids=str,
)
def test_each_form_names_its_corpora(value: Any, corpora: list[CorpusOptions]) -> None:
    assert parsed(value) == corpora


def test_names_that_come_again_are_numbered_and_no_two_are_equal() -> None:
    same = [["a", "b"]] * 3
    assert [corpus.name for corpus in parsed([*same, {"corpus": "a-2"}, {"corpus": "a-2"}])] == [
        *("a", "a-2", "a-3", "a-2-2", "a-2-3"),
    ]


@pytest.mark.parametrize("weight", [0.0001, 1, 2.5, 1_000_000])
def test_weights_reach_from_a_ten_thousandth_to_a_million(weight: float) -> None:
    assert parsed({"corpus": "made", "weight": weight})[0].weight == weight


@pytest.mark.parametrize(
    ("value", "says"),
    [
        *(
            ({"corpus": "made", "weight": w}, r"task\.train\.weight=.* must be a number from")
            for w in (9e-5, 1e6 + 1, True, "2")
        ),
        ({"corpus": 3}, r"task\.train\.corpus=3 must be the name"),
        ({"corpus": "lines"}, "task.train: 'files' is missing"),
        (["a", "b", "c"], r"task\.train\[0\]='a' does not name a corpus; give two files, as in task\.train\[0\]="),
        ({"files": []}, r"task\.train\.files=\[\] does not name a corpus"),
        ({"files": ["a", ""]}, "does not name a corpus"),
        ({"files": ["a", 3]}, "does not name a corpus"),
        ({"files": 3}, "does not name a corpus"),
        (["a", "b\0"], "a file name holds a NUL character"),
    ],
    ids=str,
)
def test_what_names_no_corpus_is_refused_with_what_to_give(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parsed(value)
