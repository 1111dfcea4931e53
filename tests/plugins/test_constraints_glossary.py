"""Terms of a glossary that occur in texts, against a search of every place; files that are no glossary."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from s2s.errors import DataError
from s2s_constraints.glossary import Glossary, Term, read_glossary
from s2s_constraints.symbols import joins

if TYPE_CHECKING:
    from pathlib import Path


def places(text: str, source: str) -> list[tuple[int, int]]:
    """Where a term stands as whole words, whatever the case."""
    ends = [(i, i + len(source)) for i in range(len(text)) if text[i : i + len(source)].lower() == source.lower()]
    return [
        (i, j) for i, j in ends if not (joins(text[max(i - 1, 0) : i], text[i]) or joins(text[j - 1], text[j : j + 1]))
    ]


def longest_first(text: str, sources: list[str]) -> list[str]:
    """Take the longest of all places, the first of equally long ones, and leave out what overlaps it, and so on."""
    left = [(i, j) for source in sources for i, j in places(text, source)]
    taken = []
    while left:
        best = min(left, key=lambda one: (one[0] - one[1], one[0]))
        taken.append(best)
        left = [(i, j) for i, j in left if j <= best[0] or i >= best[1]]
    return [text[i:j] for i, j in sorted(taken)]


def test_the_longest_terms_are_found_as_whole_words() -> None:
    draw = random.Random(3)
    for _ in range(3000):
        text = " ".join(
            "".join(draw.choices("aBäé漢-'", k=draw.randint(1, 7))) + draw.choice(["", " b", "."]) for _ in "12"
        )
        sources = sorted({"".join(draw.choices("abäé漢- ", k=draw.randint(1, 4))).strip(" ") for _ in range(6)} - {""})
        found = Glossary(Term(source, ("x",)) for source in sources).terms_in(text)
        expected = [part.lower() for part in longest_first(text, sources)]
        assert [term.source for term, _ in found] == list(dict.fromkeys(expected)), (text, sources)
        assert [written.lower() for _, written in found] == [term.source for term, _ in found]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Open the FILE menu", ["File menu", "Open"]),
        ("the filemenu, files", []),
        ("a  file\u00a0 menu", ["File menu"]),
        ("Range and range", ["Range", "range"]),
        ("RANGE", ["Range"]),
        ("cafe\u0301", ["Café"]),
        ("東京都に", ["東京"]),
        ("C++-Code, C++x", ["C++"]),
        ("", []),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    sources = ["File", "File menu", "Open", "Range", "range", "Café", "東京", "C++"]
    every = Glossary(Term(source, ("x",)) for source in sources)
    assert sorted(term.source for term, _ in every.terms_in(text)) == terms


def test_a_file_has_sources_targets_and_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeffdog\tHund\t5\t7\r\n\r\n # x \t #y|z| y\r\ndog\tHund\ncat\tKatze|Kater".encode())
    assert list(read_glossary(str(path)).terms.values()) == [
        Term("dog", ("Hund",)),
        Term("# x", ("#y", "z", "y")),
        Term("cat", ("Katze", "Kater")),
    ]
    assert [(term.source, written) for term, written in read_glossary(str(path)).terms_in("A Dog")] == [("dog", "Dog")]
    path.write_text("dog\tKöter\n")
    assert [term.targets for term in read_glossary(str(path)).terms.values()] == [("Köter",)]


BAD_FILES = [
    ("dog Hund\n", ":1: expected a source term, a tab and a target term, got 'dog Hund'"),
    ("dog\tHund\n\nx\n", ":3: expected a source term, a tab and a target term, got 'x'"),
    ("dog\t \n", ":1: an empty term; give both source and target"),
    (" \tHund\n", ":1: an empty term; give both source and target"),
    ("dog\tHund||Köter\n", ":1: an empty term; give both source and target"),
    (
        "dog\tHund\ncat\tKatze\ndog\tKöter\n",
        ":3: 'dog' is 'Köter' here and 'Hund' in line 1; write alternatives in one line",
    ),
]


@pytest.mark.parametrize(("content", "error"), BAD_FILES)
def test_what_is_no_glossary_is_refused_in_one_line(content: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_glossary(str(path))
    assert str(caught.value).startswith(f"{path}{error}")
    assert "\n" not in str(caught.value)
