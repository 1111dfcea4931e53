"""Elements of a source come once each in its translation, where their words are, whatever the links say."""

from __future__ import annotations

import itertools
import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.annotated_texts import check_projection, random_links, random_spans, random_text
from s2s.errors import DataError
from s2s.text import AnnotatedText, Span
from s2s.text.projection import project
from s2s.text.runs import AtomRun, Demand, best_run, disjoint_runs
from s2s.text.words import Atom

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = re.compile(r"<(/?)(\w+)[^>]*?(/?)>")
TOKEN = re.compile(r"\w+|[^\w\s]")


def parsed(document: str) -> AnnotatedText:
    """A document whose code elements are kept."""
    text, at = "", 0
    spans: list[Span] = []
    around: list[int] = []
    for tag in TAG.finditer(document):
        text, at = text + document[at : tag.start()], tag.end()
        if tag[1]:
            n = around.pop()
            spans[n] = spans[n]._replace(end=len(text), closing=tag[0])
            continue
        if not tag[3]:
            around.append(len(spans))
        spans.append(Span(len(text), len(text), tag[0], "", tag[2] == "code", len(around) - (not tag[3])))
    return AnnotatedText(text + document[at:], tuple(spans))


def projected(document: str, target: str, pairs: str) -> str:
    """The document that `project` makes. pairs: source-target of aligned tokens, in Pharaoh format."""
    source = parsed(document)
    src, tgt = ([token.span() for token in TOKEN.finditer(text)] for text in (source.text, target))
    links = [(*src[int(i)], *tgt[int(j)]) for i, j in (pair.split("-") for pair in pairs.split())]
    return project(source, target, links).render()


@pytest.mark.parametrize(
    ("document", "target", "pairs", "expected"),
    [
        (
            "Did a bear <b>look</b> for five cows?",
            "Hat ein Bär nach fünf Kühen geschaut?",
            "0-0 1-1 2-2 4-3 5-4 6-5 3-6 7-7",
            "Hat ein Bär nach fünf Kühen <b>geschaut</b>?",
        ),
        ("<b>Tools - </b><b>Options</b>", "Extras - Optionen", "0-0 1-1 2-2", "<b>Extras - </b><b>Optionen</b>"),
        ("<b>Tools -</b> <b>Options</b>", "Extras - Optionen", "0-0 1-1 2-2", "<b>Extras -</b> <b>Optionen</b>"),
        (
            "<p>The <b>dog</b> hid.</p>",
            "Der Hund versteckte sich.",
            "0-0 1-1 2-2 2-3 3-4",
            "<p>Der <b>Hund</b> versteckte sich.</p>",
        ),
        ("<b>The dog hid</b>.", "Der Hund versteckte sich!", "3-0 3-1 3-2", "<b>Der Hund versteckte sich</b>!"),
        ("<b>The dog hid.</b>", "Der Hund versteckte sich!", "3-0 3-1 3-2", "<b>Der Hund versteckte sich!</b>"),
        ("Click here<img/> now.", "Jetzt hier klicken.", "2-0 1-1 0-2 3-3", "Jetzt hier<img/> klicken."),
        ("The dog <br/> hid.", "Der Hund versteckte sich.", "0-0 1-1 2-2 2-3 3-4", "Der Hund <br/>versteckte sich."),
        ("A <b></b><i>dog</i>", "Ein Hund", "0-0 1-1", "Ein <b></b><i>Hund</i>"),
        ("<i>dog<br/></i> hid", "Hund lief", "0-0 1-1", "<i>Hund<br/></i> lief"),
        ("<i>dog</i><br/> hid", "Hund lief", "0-0 1-1", "<i>Hund</i><br/> lief"),
        ("I <b>saw</b> it off", "Ich säge es ab", "0-0 1-1 2-2 1-3", "Ich <b>säge</b> es ab"),
        (
            "Use <code>git push</code> now.",
            "Jetzt git push verwenden.",
            "3-0 1-1 2-2 0-3 4-4",
            "Jetzt <code>git push</code> verwenden.",
        ),
        (
            "Use <code>git push</code> now.",
            "Jetzt Git drücken verwenden.",
            "3-0 1-1 2-2 0-3 4-4",
            "Jetzt <code>git push</code> verwenden.",
        ),
        ("Use <code>😀</code> now.", "Jetzt verwenden.", "2-0 0-1 3-2", "Jetzt verwenden <code>😀</code>."),
        ("<code>😀</code> Use it.", "Es verwenden.", "2-0 1-1 3-2", "<code>😀</code> Es verwenden."),
        ("Use<code>😀</code>.", "Verwenden.", "0-0 2-1", "Verwenden<code>😀</code>."),
        (
            "<b>Use <code>😀</code></b> now.",
            "Jetzt verwenden.",
            "2-0 0-1 3-2",
            "Jetzt <b>verwenden <code>😀</code></b>.",
        ),
    ],
)
def test_elements_go_around_the_words_that_are_aligned_with_theirs(
    document: str, target: str, pairs: str, expected: str
) -> None:
    assert projected(document, target, pairs) == expected


def test_in_scripts_without_blanks_elements_may_begin_and_end_with_any_token() -> None:
    source = AnnotatedText("the cat sleeps", (Span(4, 7, "<b>", "</b>"),))
    links = [(0, 3, 0, 1), (4, 7, 1, 2), (8, 14, 2, 5)]
    assert project(source, "那猫在睡觉", links).render() == "那<b>猫</b>在睡觉"


def test_a_copy_is_taken_at_the_place_nearest_to_the_aligned_words() -> None:
    source = AnnotatedText("a x b x", (Span(2, 3, "<c>", "</c>", keep=True),))
    links = [(0, 1, 4, 5), (2, 3, 6, 7), (4, 5, 0, 1), (6, 7, 2, 3)]
    assert project(source, "B x A x", links).render() == "B x A <c>x</c>"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("JETZT ab NUTZEN", "JETZT <c>a</c><d>b</d> NUTZEN"),
        ("JETZT a NUTZEN b", "JETZT <c>a</c> NUTZEN <d>b</d>"),
        ("JETZT NUTZEN", "JETZT <c>a</c><d>b</d> NUTZEN"),
    ],
)
def test_neighbours_that_are_kept_are_there_once(target: str, expected: str) -> None:
    source = AnnotatedText("Now ab use", (Span(4, 5, "<c>", "</c>", keep=True), Span(5, 6, "<d>", "</d>", keep=True)))
    links = [(0, 3, 0, 5), (7, 10, target.index("N", 6), len("NUTZEN") + target.index("N", 6))]
    assert project(source, target, links).render() == expected


@pytest.mark.parametrize("keeps", [False, True], ids=["translated", "kept"])
def test_ten_thousand_documents_lose_double_and_cross_no_element(keeps: bool) -> None:
    for seed in range(5000):
        rng = Random(seed * 2 + keeps)
        source = random_text(rng)
        annotated = AnnotatedText(source, random_spans(rng, source, keeps=keeps))
        target = random_text(rng)
        check_projection(annotated, target, project(annotated, target, random_links(rng, source, target)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text("ab 。猫\u0301.", max_size=12), st.text("ab 。猫\u0301.", max_size=12), st.data())
def test_any_links_keep_every_element(source: str, target: str, data: st.DataObject) -> None:
    place = st.integers(-2, 14)
    links = data.draw(st.lists(st.tuples(place, place, place, place), max_size=8))
    spans = random_spans(Random(data.draw(st.integers(0, 99))), source, keeps=True)
    annotated = AnnotatedText(source, spans)
    check_projection(annotated, target, project(annotated, target, links))


@pytest.mark.parametrize("links", [[], [(0, 3, 0, 3)], [(4, 7, 0, 3), (0, 3, 4, 8)]])
def test_an_element_around_all_is_around_all(links: list[tuple[int, int, int, int]]) -> None:
    source = AnnotatedText("The dog.", (Span(0, 8, "<b>", "</b>"), Span(0, 7, "<i>", "</i>")))
    assert project(source, "„Der Hund, ja“.", links).render() == "<b><i>„Der Hund, ja</i>“.</b>"


@pytest.mark.parametrize(
    "spans",
    [
        (Span(0, 3), Span(2, 5)),
        (Span(2, 3), Span(0, 1)),
        (Span(0, 9),),
        (Span(2, 1),),
        (Span(0, 2), Span(1, 3, depth=1)),
    ],
)
def test_elements_that_are_not_nested_are_refused(spans: tuple[Span, ...]) -> None:
    with pytest.raises(DataError, match="nested"):
        AnnotatedText("abcdef", spans)


def enumerated(scores: Sequence[Sequence[float]], demands: Sequence[Demand], atoms: Sequence[Atom]) -> float | None:
    """The highest sum of all disjoint runs in order."""
    n = len(atoms)
    runs = [AtomRun(b, e) for b in range(n) for e in range(b + 1, n + 1)]
    sums = []
    for some in itertools.product([None, *runs], repeat=len(scores)):
        end, total = 0, 0.0
        for run, values, demand in zip(some, scores, demands, strict=True):
            begin, stop = run or (end, end)
            enough = stop - begin >= demand.n_atoms and sum(a.is_word for a in atoms[begin:stop]) >= demand.n_words
            if begin < end or not enough:
                break
            end, total = stop, total + sum(values[begin:stop])
        else:
            sums.append(total)
    return max(sums, default=None)


def test_runs_have_the_highest_sum_of_all() -> None:
    rng = Random(1)
    for _ in range(300):
        n, k = rng.randint(1, 5), rng.randint(1, 3)
        atoms = [Atom(i, i + 1, rng.random() < 0.7) for i in range(n)]
        scores = [[rng.choice([-1.0, -0.5, 0.25, 1.0]) for _ in atoms] for _ in range(k)]
        demands = [Demand(words := rng.randint(0, 2), rng.randint(words, 2)) for _ in range(k)]
        runs = disjoint_runs(scores, demands, atoms)
        best = enumerated(scores, demands, atoms)
        if runs is None:
            assert best is None
            continue
        pairs = [(run, values) for run, values in zip(runs, scores, strict=True) if run]
        assert best == sum(sum(values[run.begin : run.end]) for run, values in pairs)
        assert all(a.end <= b.begin for (a, _), (b, _) in itertools.pairwise(pairs))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_best_run_is_that_of_all_runs(scores: list[int]) -> None:
    n = len(scores)
    run = best_run([float(score) for score in scores])
    assert sum(scores[run.begin : run.end]) == max(sum(scores[b:e]) for b in range(n) for e in range(b + 1, n + 1))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("See {0}, the dog hid.", "Siehe den Hund.", "Siehe {0} den Hund."),
        ("See '{0}' hid.", "Siehe den Hund.", "Siehe {0} den Hund."),
        ("See {0}'s dog.", "Siehe Hund.", "Siehe {0} Hund."),
        ("見る{0}、犬。", "見る犬。", "見る{0}犬。"),
    ],
)
def test_a_kept_part_beside_punctuation_is_not_glued_to_words(source: str, target: str, expected: str) -> None:
    """The target has a word where the source has punctuation; a script without blanks gets none."""
    at = source.index("{0}")
    n = min(at, 5 if " " in target else 2)
    links = [(0, at, 0, n)]
    projected = project(AnnotatedText(source, (Span(at, at + 3, keep=True),)), target, links)
    assert projected.text == expected
