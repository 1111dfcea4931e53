"""More trees by replacing constituents."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from s2s_parsing.substitution import constituents, main, pool_of, substituted
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.treebank import Cleaner, read_brackets

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog)))))",
    "(TOP (S (NP (NNP Ann)) (VP (VBD slept) (PP (IN in) (NP (DT the) (JJ old) (NN house))))))",
    "(TOP (S (NP (NP (DT the) (NN end)) (PP (IN of) (NP (NN time)))) (VP (VBZ is) (ADJP (JJ near)))))",
    "(TOP (NP (NN silence)))",
]


def trees(lines: list[str] = LINES) -> list[Tree]:
    return [tree for tree in read_brackets(enumerate(lines, 1), Cleaner(Counter())) if isinstance(tree, Tree)]


def brute_force(tree: Tree) -> list[tuple[str, str, str]]:
    """Label, words around it, and its own words, of each bracket that has some words, not all; by recursion."""
    n_words, found = len(leaves(tree)), []

    def visit(node: Tree, parent: str, left: int) -> None:
        words = [leaf.word for leaf in leaves(node)]
        if len(words) < n_words:
            found.append((node.label, parent, " ".join(words)))
        for child in node.children:
            if isinstance(child, Tree):
                visit(child, node.label, left)
            left += len(leaves(child))

    visit(tree, "TOP", 0)
    return found


@pytest.mark.parametrize("tree", trees(), ids=str)
def test_constituents_are_the_brackets_with_some_of_the_words(tree: Tree) -> None:
    found = [(c.tree.label, c.parent, " ".join(leaf.word for leaf in leaves(c.tree))) for c in constituents(tree)]
    assert found == brute_force(tree)


@pytest.mark.parametrize("tree", trees(), ids=str)
def test_a_constituent_lies_at_the_end_of_its_path(tree: Tree) -> None:
    for found in constituents(tree):
        here: Any = tree
        for i in found.path:
            here = here.children[i]
        assert here == found.tree


def test_one_is_replaced_by_another_of_its_kind_and_all_else_stays() -> None:
    pool = pool_of(trees())
    changes = set()
    for seed in range(200):
        (tree,) = trees(LINES[:1])
        new = substituted(tree, pool, 1, 100, random.Random(seed))
        if new == tree:
            continue
        (old,) = [
            c
            for c in constituents(tree)
            if any(str(tree).replace(str(c.tree), str(other), 1) == str(new) for other in pool[c.kind])
        ][:1]
        changes.add((old.tree.label, str(new)))
    subjects = ["(NP (NP (DT the) (NN end)) (PP (IN of) (NP (NN time))))"]  # another under S that begins with DT
    predicates = ["(VP (VBZ is) (ADJP (JJ near)))"]
    assert {new for label, new in changes if label == "VP"} == {
        f"(TOP (S (NP (DT the) (NN cat)) {predicate}))" for predicate in predicates
    }
    assert {new for label, new in changes if label == "NP"} == {
        f"(TOP (S {subject} (VP (VBZ sees) (NP (DT a) (NN dog)))))" for subject in subjects
    }


def test_no_sentence_becomes_longer_than_allowed() -> None:
    pool, drawn = pool_of(trees()), random.Random(1)
    grown = [substituted(tree, pool, 3, 6, drawn) for tree in trees() for _ in range(50)]
    assert max(len(leaves(tree)) for tree in grown) == 6


def test_a_tree_of_one_constituent_has_nothing_to_replace() -> None:
    (tree,) = trees(LINES[3:])
    assert substituted(tree, {}, 2, 100, random.Random(1)) == tree


def test_a_deep_tree_is_no_recursion() -> None:
    deep = "(X " * 3000 + "(A a) (Y (B b))" + ")" * 3000
    (tree,) = trees([deep])
    (one,) = constituents(tree)
    assert one.tree == Tree("Y", one.tree.children)
    assert len(leaves(substituted(tree, pool_of([tree]), 1, 100, random.Random(1)))) == 2


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    path = tmp_path / "train.mrg"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def run(treebank: Path, *options: str) -> list[str]:
    output = treebank.with_name("more.mrg")
    assert main([str(treebank), "-o", str(output), *options]) == 0
    return output.read_text().splitlines()


def test_copies_differ_from_their_trees_and_depend_on_the_seed_alone(treebank: Path, capsys: Any) -> None:
    more = run(treebank, "--copies", "20")
    assert capsys.readouterr().err == f"{treebank.with_name('more.mrg')}: {len(more)} trees from 4\n"
    assert 5 < len(more) <= 60  # few kinds of constituents occur twice
    assert not set(more) & set(LINES)
    assert run(treebank, "--copies", "20") == more
    assert run(treebank, "--copies", "20", "--seed", "2") != more
    assert set(run(treebank, "--copies", "3")) <= set(more)


@pytest.mark.parametrize("option", ["--copies", "--constituents", "--longest"])
def test_numbers_below_one_are_refused(treebank: Path, capsys: Any, option: str) -> None:
    assert main([str(treebank), "-o", str(treebank.with_name("more.mrg")), option, "0"]) == 2
    assert f"{option} 0: give a positive number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "reason"),
    [("(TOP (S (NN a))", "1 bracket is not closed"), ("(TOP (-NONE- *))", "the tree that ends here has only traces")],
    ids=["a bracket left open", "only traces"],
)
def test_a_tree_that_cannot_be_used_is_refused_with_its_place_and_nothing_is_written(
    treebank: Path, capsys: Any, line: str, reason: str
) -> None:
    treebank.write_text(f"{LINES[0]}\n{line}\n")
    assert main([str(treebank), "-o", str(treebank.with_name("more.mrg"))]) == 2
    assert f"{treebank}:2: {reason}" in capsys.readouterr().err
    assert not treebank.with_name("more.mrg").exists()


def test_the_treebank_itself_is_not_overwritten(treebank: Path, capsys: Any) -> None:
    before = treebank.read_bytes()
    assert main([str(treebank), "-o", str(treebank)]) == 2
    assert "both read and written; give another name with -o" in capsys.readouterr().err
    assert treebank.read_bytes() == before
