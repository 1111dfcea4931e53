"""One tree from the outputs of several parsers."""

from __future__ import annotations

import gzip
import json
from itertools import combinations
from math import exp
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.parsing_trees import LABELS, trees
from s2s_parsing.task import read_tree
from s2s_parsing.tree import Tree, Word, leaves
from s2s_parsing.vote import Bracket, Candidate, brackets_of, main, read_candidates, tree_of, vote

if TYPE_CHECKING:
    from pathlib import Path

A = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog)))))"
B = "(TOP (S (NP (DT the) (NN cat)) (VBD saw) (NP (DT a) (NN dog))))"
C = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw)) (NX (DT a) (NNP dog))))"


@st.composite
def trees_over(draw: st.DrawFn, n_words: int) -> Tree:
    """A tree over the words 0 to n - 1, from brackets that are drawn one after another."""
    n_brackets = draw(st.integers(0, 6))
    chosen: list[tuple[str, int, int]] = []
    for _ in range(n_brackets):
        start = draw(st.integers(0, n_words - 1))
        end = draw(st.integers(start + 1, n_words))
        if not any(crosses((start, end), (s, e)) for _, s, e in chosen):
            chosen.append((draw(st.sampled_from(LABELS[:3])), start, end))
    chosen.sort(key=lambda one: (one[1], -one[2]))
    return tree_of((Bracket(*one, 0) for one in chosen), [Word("NN", str(i)) for i in range(n_words)])


def crosses(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1]


@given(trees)
def test_brackets_and_words_make_up_a_tree(tree: Tree) -> None:
    assert tree_of(brackets_of(tree), leaves(tree)) == tree
    assert len(set(brackets_of(tree))) == len(brackets_of(tree)) == str(tree).count("(") - len(leaves(tree)) - 1


@given(trees)
def test_a_parser_alone_elects_its_tree(tree: Tree) -> None:
    assert vote([[Candidate(tree, 1.0)]]) == tree
    assert vote([[Candidate(tree, 0.25), Candidate(tree, 0.75)], [Candidate(tree, 1.0)]]) == tree


@given(st.data())
def test_no_set_of_brackets_has_more_correct_less_wrong_ones_in_expectation(data: st.DataObject) -> None:
    n_words = data.draw(st.integers(1, 4))
    parsers = []
    for _ in range(data.draw(st.integers(1, 3))):
        own = data.draw(st.lists(trees_over(n_words), min_size=1, max_size=2))
        weights = [data.draw(st.integers(1, 5)) for _ in own]
        parsers.append([Candidate(tree, w / sum(weights)) for tree, w in zip(own, weights, strict=True)])

    def expected(chosen: set[Bracket]) -> float:
        """Correct brackets less wrong ones, if a candidate is the gold tree with its share of the votes."""
        total = 0.0
        for candidate in (one for candidates in parsers for one in candidates):
            n_correct = len(chosen & set(brackets_of(candidate.tree)))
            total += candidate.share / len(parsers) * (n_correct - (len(chosen) - n_correct))
        return total

    known = sorted({b for candidates in parsers for one in candidates for b in brackets_of(one.tree)})[:10]
    best = max(expected(set(some)) for k in range(len(known) + 1) for some in combinations(known, k))
    elected = vote(parsers)
    assert [leaf.word for leaf in leaves(elected)] == [str(i) for i in range(n_words)]
    assert expected(set(brackets_of(elected))) >= best - 1e-6


def test_a_bracket_needs_more_than_half_of_the_votes() -> None:
    a, b, c = (Candidate(read_tree(line), 1.0) for line in (A, B, C))
    assert str(vote([[a], [a], [c]])) == A
    assert str(vote([[a], [b]])) == B, "the VP has only half"
    assert str(vote([[a], [b], [c]])) == B
    assert "(NN dog)" in str(vote([[b], [c], [a]])), "tags are elected, too"


def test_a_parser_that_has_found_no_tree_abstains() -> None:
    found, fallback = (Candidate(read_tree(line), share) for line, share in ((A, 1.0), (C, 0.0)))
    assert str(vote([[fallback], [found], [fallback]])) == A
    assert str(vote([[fallback], [Candidate(read_tree(B), 0.0)]])) == C, "an output for every sentence"


def test_brackets_over_the_same_words_keep_the_order_that_most_candidates_have() -> None:
    one, other = read_tree("(TOP (S (VP (VB go))))"), read_tree("(TOP (VP (S (VB go))))")
    assert vote([[Candidate(one, 1.0)], [Candidate(other, 1.0)], [Candidate(one, 1.0)]]) == one


def test_brackets_elsewhere_do_not_change_the_order_of_those_over_the_same_words() -> None:
    full = read_tree("(TOP (NP (NP (NN a) (NN b)) (NP (NN c) (NN d))) (S (VP (VB go))))")
    flat = read_tree("(TOP (NN a) (NN b) (NN c) (NN d) (VP (VB go)))")
    assert vote([[Candidate(tree, 1.0)] for tree in (full, full, flat)]) == full


@given(st.permutations("ABCD"), st.lists(st.lists(st.sampled_from("ABCDEF"), unique=True), max_size=4))
def test_a_chain_that_most_parsers_have_is_in_the_result(most: list[str], others: list[list[str]]) -> None:
    def chain(labels: list[str]) -> Candidate:
        return Candidate(read_tree(f"(TOP {''.join(f'({label} ' for label in labels)}(NN a){')' * len(labels)})"), 1.0)

    elected = vote([[chain(one)] for one in [*others, *[most] * (len(others) + 1)]])
    assert elected == chain(most).tree


def written(path: Path, records: list[list[tuple[str, float | None]]]) -> Path:
    lines = (
        {"src": "…", "hyp": own[0][0], "score": own[0][1]} | {"nbest": [{"hyp": h, "score": s} for h, s in own]}
        for own in records
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_a_vote_is_divided_by_the_probabilities_of_the_outputs(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", [[(A, -1.0), (B, -2.0)], [(A, None)], [("", 0.0)], [(A, None), (B, -9.0)]])
    with file.open("a") as lines:
        lines.write("\n")  # s2s-generate's output for an empty line of a jsonl file
    found = [[one.share for one in candidates] for _, candidates in read_candidates(file)]
    assert found == [[pytest.approx(1 / (1 + exp(-1))), pytest.approx(1 / (1 + exp(1)))], [0.0], [], [0.0, 1.0], []]
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert [one for _, one in read_candidates(zipped)] == [one for _, one in read_candidates(file)]


def test_the_command_reads_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = tmp_path / "a.mrg"
    plain.write_text(f"{A}\n\n{C}\n")
    nbest = written(tmp_path / "b.jsonl", [[(B, -1.0), (A, -1.2)], [("", 0.0)], [(B, -1.0)]])
    assert main([str(plain), str(nbest), "-o", str(tmp_path / "out.mrg")]) == 0
    assert (tmp_path / "out.mrg").read_text() == f"{A}\n\n{B.replace('(NP (DT a) (NN dog))', '(DT a) (NNP dog)')}\n"
    assert "3 trees, files that voted: 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (f"{A}\n", "b.mrg: fewer sentences"),
        (f"{A}\n{A.replace('cat', 'cow')}\n", "b.mrg:2: not the same words"),
        (f"{A}\n\n", "b.mrg:2: not the same words"),
        (f"{A}\n(TOP (S\n", "b.mrg:2: expected one tree"),
    ],
)
def test_outputs_for_other_sentences_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, said: str
) -> None:
    (tmp_path / "a.mrg").write_text(f"{A}\n{A}\n")
    (tmp_path / "b.mrg").write_text(second)
    output = tmp_path / "out.mrg"
    assert main([str(tmp_path / "a.mrg"), str(tmp_path / "b.mrg"), "-o", str(output)]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not output.exists()


def test_a_tree_that_is_in_a_list_twice_votes_once(tmp_path: Path) -> None:
    outputs = [{"hyp": tree, "score": score} for tree, score in ((A, -1), (B, -1), (A, -2))]
    (tmp_path / "a.jsonl").write_text(json.dumps({"nbest": outputs}))
    ((_, candidates),) = read_candidates(tmp_path / "a.jsonl")
    assert [(str(one.tree), one.share) for one in candidates] == [(A, 0.5), (B, 0.5)]


def test_what_is_not_json_of_outputs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in (
        "oh",
        "[1]",
        '{"hyp": 1}',
        '{"src": "a"}',
        '{"nbest": 3}',
        '{"hyp": "", "score": NaN}',
        '{"hyp": "", "score": Infinity}',
    ):
        (tmp_path / "a.jsonl").write_text(f"{text}\n")
        assert main([str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "out.mrg")]) == 2
        assert "a.jsonl:1: expected hyp and score" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["a.jsonl", "link.jsonl"])
def test_outputs_are_not_overwritten_by_their_vote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    file = written(tmp_path / "a.jsonl", [[(A, -1.0)]])
    (tmp_path / "link.jsonl").symlink_to(file)
    assert main([str(file), "-o", str(tmp_path / output)]) == 2
    assert "both read and written" in capsys.readouterr().err
