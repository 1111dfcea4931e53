"""Linearisations: against plain recursive writers, and exact in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.parsing_trees import each_treebank, trees
from s2s_parsing.linear import FORMS, MalformedError, UnwritableError
from s2s_parsing.tree import TOP, Tree, Word, leaves, map_words
from s2s_parsing.treebank import read_brackets, read_treebank

if TYPE_CHECKING:
    from pathlib import Path

    from s2s_parsing.linear import Linear

WORDS, TAGS = ["The", "cat", "sleeps"], ["DT", "NN", "VBZ"]
(TREE,) = read_brackets([(1, "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps))))")])
WRITTEN = {
    "released": "S NP DT NN /NP VP VBZ /VP /S",
    "vinyals": "(S (NP XX XX )NP (VP XX )VP )S",
    "brackets": "(S (NP * * ) (VP * ) )",
    "in_order": "SHIFT PJ-NP SHIFT REDUCE PJ-S SHIFT PJ-VP REDUCE REDUCE",
}
every_form = pytest.mark.parametrize("form", [pytest.param(form(), id=name) for name, form in FORMS.items()])


def recursive(name: str, node: Tree | Word) -> str:
    """The form written out as its definition reads."""
    if isinstance(node, Word):
        return {"released": node.tag, "vinyals": "XX", "brackets": "*", "in_order": "SHIFT"}[name]
    label, parts = node.label, [recursive(name, child) for child in node.children]
    if label == TOP:
        return " ".join(parts)
    if name == "released":
        return f"{label} {' '.join(parts)} /{label}"
    if name == "vinyals":
        return f"({label} {' '.join(parts)} ){label}"
    if name == "brackets":
        return f"({label} {' '.join(parts)} )"
    return f"{parts[0]} PJ-{label} {' '.join([*parts[1:], 'REDUCE'])}"


def words_and_tags(tree: Tree) -> tuple[list[str], list[str]]:
    found = leaves(tree)
    return [leaf.word for leaf in found], [leaf.tag for leaf in found]


def without_tags(tree: Tree) -> Tree:
    return map_words(tree, lambda tag, word: Word("XX", word))


@pytest.mark.parametrize("name", FORMS)
def test_a_tree_is_written_as_its_form_is_known(name: str) -> None:
    assert isinstance(TREE, Tree)
    form = FORMS[name]()
    assert " ".join(form.tokens(TREE)) == WRITTEN[name]
    assert form.tree(WRITTEN[name].split(), WORDS, TAGS) == TREE


@pytest.mark.parametrize("name", FORMS)
@given(tree=trees)
def test_any_tree_is_written_as_the_recursive_definition_has_it(name: str, tree: Tree) -> None:
    assert FORMS[name]().tokens(tree) == recursive(name, tree).split(" ")


@every_form
@given(tree=trees)
def test_symbols_and_words_give_the_tree_again(form: Linear, tree: Tree) -> None:
    words, tags = words_and_tags(tree)
    tokens = form.tokens(tree)
    assert form.tree(tokens, words, tags) == tree
    assert form.tree(tokens, words) == (tree if form.tags else without_tags(tree))


@every_form
@given(data=st.data(), n_words=st.integers(0, 4))
def test_any_symbols_are_a_tree_that_is_written_so_or_malformed(
    form: Linear, data: st.DataObject, n_words: int
) -> None:
    """No sequence is taken for a tree that it does not spell, whatever a model without a constraint puts out."""
    tokens = [token for written in WRITTEN.values() for token in written.split()]
    tokens = data.draw(st.lists(st.sampled_from(tokens), max_size=8))
    try:
        tree = form.tree(tokens, ["w"] * n_words)
    except MalformedError:
        return
    assert form.tokens(tree) == tokens
    assert len(leaves(tree)) == n_words > 0


@pytest.mark.parametrize(
    ("tokens", "n_words", "what"),
    [
        ("(S XX )S XX", 1, "more words than the 1 of the sentence"),
        ("(S XX )S", 2, "1 words, but the sentence has 2"),
        ("", 0, "0 words, but the sentence has 0"),
        ("(S XX )NP", 1, r"the bracket \(S …\) is closed as NP"),
        ("(S (NP )NP XX )S", 1, r"the bracket \(NP\) is empty"),
        ("(S (NP XX )NP", 1, r"the bracket \(S …\) is not closed"),
        ("(S XX )S )S", 1, "a closing bracket too many"),
        ("(S <unk> )S", 1, "'<unk>' is not a token of this form"),
    ],
)
def test_what_is_no_tree_of_the_words_is_refused(tokens: str, n_words: int, what: str) -> None:
    with pytest.raises(MalformedError, match=what):
        FORMS["vinyals"]().tree(tokens.split(), ["w"] * n_words)


@pytest.mark.parametrize("tokens", ["PJ-S SHIFT REDUCE", "SHIFT PJ-NP PJ-S REDUCE REDUCE"])
def test_a_bracket_in_order_needs_a_first_part_that_is_finished(tokens: str) -> None:
    with pytest.raises(MalformedError, match=r"nothing finished stands before the bracket \(S …\)"):
        FORMS["in_order"]().tree(tokens.split(), ["w"])


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        ("(TOP (NP (NP (NN a)) (NP b)))", "'NP' would be read as a token that opens a bracket"),
        ("(TOP (NP (/NP a)))", "'/NP' would be read as a token that closes the innermost bracket"),
        ("(TOP (NP ((NN a) (NN b))))", "'' would be read as a token that takes the next word"),
    ],
)
def test_released_refuses_a_tree_whose_symbols_could_be_taken_for_others(tree: str, what: str) -> None:
    (read,) = read_brackets([(1, tree)])
    assert isinstance(read, Tree)
    with pytest.raises(UnwritableError, match=what):
        FORMS["released"]().tokens(read)


@every_form
def test_a_deep_tree_is_written_and_read_like_any_other(form: Linear) -> None:
    (tree,) = read_brackets([(1, "(TOP " + "(S (NN a) " * 5_000 + "(NN b)" + ")" * 5_001)])
    assert isinstance(tree, Tree)
    words, tags = words_and_tags(tree)
    assert str(form.tree(form.tokens(tree), words, tags)) == str(tree)


@each_treebank()
@every_form
def test_every_tree_of_the_treebanks_comes_back(path: Path, form: Linear) -> None:
    for tree in read_treebank([path]):
        assert isinstance(tree, Tree)
        words, tags = words_and_tags(tree)
        assert form.tree(form.tokens(tree), words, None if form.tags else tags) == tree
