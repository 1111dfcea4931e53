"""The constraint against slow truths: gold trees, the forms' own readers, and the enumeration of all outputs."""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from torch.nn.utils.rnn import pad_sequence

from harness.parsing_trees import TREEBANKS, each_treebank, trees
from harness.tree_texts import EOS, PAD, Written, begin, sentences, small, walks
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.constraint.fallback import fallback
from s2s_parsing.constraint.tables import WORDS
from s2s_parsing.linear import FORMS, Kind, MalformedError
from s2s_parsing.tree import Tree, Word, leaves
from s2s_parsing.treebank import read_treebank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s_parsing.constraint.automaton import TreeConstraint
    from s2s_parsing.linear import Linear

every_form = pytest.mark.parametrize("form", [pytest.param(form(), id=name) for name, form in FORMS.items()])


def accepts(constraint: TreeConstraint, rows: Sequence[Sequence[int]], n_words: Sequence[int]) -> list[bool]:
    """Whether each of these outputs passes token by token and may then end, at a limit of its own length."""
    padded = pad_sequence([torch.tensor([*row, EOS]) for row in rows], batch_first=True, padding_value=PAD)
    state = begin(constraint, n_words, [len(row) for row in rows])
    passed = torch.ones(len(rows), dtype=torch.bool)
    for token in padded.unbind(1):
        passed &= constraint.allowed(state)[:, 0].gather(1, token[:, None])[:, 0] | (token == PAD)
        state = constraint.advance(state, token[:, None])
    return passed.tolist()


def bounds_of(tree: Tree, form: Linear) -> Bounds:
    """As the definition reads: the deepest nesting, and the most openings without a word between them."""
    kinds = "".join(
        {Kind.OPEN: "(", Kind.PROJECT: "(", Kind.CLOSE: ")", Kind.WORD: "w"}[a.kind] for a in form.actions(tree)
    )
    depth = max(kinds[:i].count("(") - kinds[:i].count(")") for i in range(len(kinds) + 1))
    return Bounds(depth, max(part.count("(") for part in kinds.split("w")))


@every_form
@given(tree=trees)
@settings(max_examples=30)
def test_bounds_are_the_least_that_let_a_tree_pass(form: Linear, tree: Tree) -> None:
    written, n_words = Written.of(form, [tree]), len(leaves(tree))
    bounds = Bounds.of([form.actions(tree)])
    assert bounds == bounds_of(tree, form)
    row = written.encode(tree)
    assert accepts(written.constraint(*bounds), [row], [n_words]) == [True]
    for name, value in bounds._asdict().items():
        if value:
            narrower = bounds._replace(**{name: value - 1})
            assert accepts(written.constraint(*narrower), [row], [n_words]) == [False]


@every_form
@given(tree=trees)
@settings(max_examples=30)
def test_a_tree_passes_with_its_own_number_of_words_only_and_within_its_own_length(form: Linear, tree: Tree) -> None:
    written, n_words = Written.of(form, [tree]), len(leaves(tree))
    constraint, row = written.constraint(99, 99), written.encode(tree)
    counts = [n_words - 1, n_words, n_words + 1]
    assert accepts(constraint, [row] * 3, counts) == [False, True, False]
    state = begin(constraint, [n_words], [len(row) - 1])
    for token in row:
        if not constraint.allowed(state)[0, 0, token]:
            return
        state = constraint.advance(state, torch.tensor([[token]]))
    pytest.fail("an output longer than its limit was allowed")


def read(path: Path) -> list[Tree]:
    return [tree for tree in read_treebank([path]) if isinstance(tree, Tree)]


def assert_all_pass(examples: list[Tree], form: Linear) -> None:
    written = Written.of(form, examples)
    constraint = written.constraint(*Bounds.of(map(form.actions, examples)))
    examples = sorted(examples, key=lambda tree: len(leaves(tree)))
    for batch in (examples[i : i + 256] for i in range(0, len(examples), 256)):
        assert all(accepts(constraint, [written.encode(t) for t in batch], [len(leaves(t)) for t in batch]))


@pytest.mark.skipif(not TREEBANKS, reason="no treebanks beside the repository")
@every_form
def test_every_tree_of_a_small_treebank_passes(form: Linear) -> None:
    assert_all_pass(read(next(path for path in TREEBANKS if path.match("wsj*/dev.clean.mrg"))), form)


@pytest.mark.slow
@each_treebank()
def test_every_tree_of_the_treebanks_passes_within_the_bounds_of_all(path: Path) -> None:
    examples = read(path)
    examples = examples[:: len(examples) // 3000 + 1]  # with all 25,947 of CRAFT, it takes a minute and passes, too
    for form in FORMS.values():
        assert_all_pass(examples, form())


@pytest.mark.slow
@each_treebank()
def test_the_reserve_of_a_small_part_is_enough_for_a_whole_treebank(path: Path) -> None:
    """The development trees are a tenth of the others, or less."""
    small, whole = read(path.with_name("dev.clean.mrg")), read(path)
    for form in (kind() for kind in FORMS.values()):
        reserved = Bounds.of(map(form.actions, small)).with_reserve()
        found = Bounds.of(map(form.actions, whole))
        assert all(a <= b for a, b in zip(found, reserved, strict=True)), (found, reserved)


TINY = {
    "released": ("A /A B /B t", 6),
    "vinyals": ("(A )A (B )B XX", 6),
    "brackets": ("(A (B ) *", 7),
    "in_order": ("PJ-A PJ-B REDUCE SHIFT", 7),
}
"""Tokens, and the longest output that is enumerated."""


@cache
def all_trees(name: str) -> dict[tuple[int, ...], tuple[int, Bounds]]:
    """Every output that the reader takes for a tree: its number of words and its bounds.

    Among other tokens, a label that is opened and never closed is a part of speech to `released`, whereas a
    token of a vocabulary has one meaning: so the reader must have found that one.
    """
    tokens, longest = TINY[name]
    written = Written(FORMS[name](), tokens.split())
    found = {}
    for ids in (ids for n in range(1, longest + 1) for ids in itertools.product(range(4, written.vocab.tgt), repeat=n)):
        actions = [written.actions[i] for i in ids]
        n_words = sum(action is not None and action.kind is Kind.WORD for action in actions)
        if written.form.read([written.tokens[i - 4] for i in ids]) != actions:
            continue
        try:
            found[ids] = n_words, bounds_of(written.tree(ids, n_words), written.form)
        except MalformedError:
            continue
    return found


def all_allowed(constraint: TreeConstraint, n_words: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Every output that the constraint lets end."""
    state, prefixes = begin(constraint, [n_words], [limit]), torch.empty(1, 0, dtype=torch.long)
    while len(prefixes):
        parents, tokens = constraint.allowed(state)[0].nonzero(as_tuple=True)
        yield from (tuple(prefixes[i].tolist()) for i in parents[tokens == EOS])
        parents, tokens = parents[tokens != EOS], tokens[tokens != EOS]
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        state = constraint.advance(state[:, parents], tokens[None])


@pytest.mark.parametrize("bounds", [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (9, 9)], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_what_may_come_out_is_what_the_reader_takes_for_a_tree(name: str, bounds: tuple[int, int]) -> None:
    """Exactly: for every number of words and every limit, nothing is lost and nothing is let in."""
    tokens, longest = TINY[name]
    constraint = Written(FORMS[name](), tokens.split()).constraint(*bounds)
    for n_words, limit in itertools.product(range(1, 4), range(1, longest + 1)):
        expected = {
            ids
            for ids, (n, needed) in all_trees(name).items()
            if n == n_words and len(ids) <= limit and needed.depth <= bounds[0] and needed.opened <= bounds[1]
        }
        found = list(all_allowed(constraint, n_words, limit))
        assert len(found) == len(set(found))
        assert set(found) == expected


def assert_only_trees(form: Linear, bounds: Bounds, n_words: Sequence[int], limits: Sequence[int]) -> None:
    written = small(form)
    rows = walks(written.constraint(*bounds), n_words, limits, seed=len(n_words))
    for row, n, limit in zip(rows, n_words, limits, strict=True):
        tree = written.tree(row, n)
        found = bounds_of(tree, form)
        assert len(leaves(tree)) == n
        assert len(row) <= limit
        assert found.depth <= bounds.depth
        assert found.opened <= bounds.opened


@every_form
@pytest.mark.parametrize("bounds", [(3, 2), (40, 40)], ids=str)
def test_any_allowed_walk_ends_in_a_tree_of_all_words(form: Linear, bounds: tuple[int, int]) -> None:
    draw = random.Random(2)
    n_words = [draw.randint(1, 12) for _ in range(300)]
    assert_only_trees(form, Bounds(*bounds), n_words, [n + draw.randint(0, 30) for n in n_words])


@pytest.mark.slow
@every_form
@pytest.mark.parametrize("bounds", [(3, 2), (12, 5), (99, 99)], ids=str)
def test_thousands_of_walks_end_in_trees_of_all_words(form: Linear, bounds: tuple[int, int]) -> None:
    draw = random.Random(3)
    n_words = [draw.choice([1, 2, 5, 23, 60, 257]) for _ in range(3000)]
    assert_only_trees(form, Bounds(*bounds), n_words, [n + draw.choice([0, 1, 7, 50, 300]) for n in n_words])


@every_form
def test_the_dead_change_nothing_for_the_living(form: Linear) -> None:
    """They come along with any token at all, for any length of time."""
    written = small(form)
    constraint = written.constraint(4, 3)
    state = begin(constraint, [3], [99]).expand(-1, 60, -1)
    alone = state[:, :1]
    for token in [*written.encode(fallback_tree(3, written)), *[EOS] * 50]:
        assert constraint.allowed(state)[:, :1].equal(constraint.allowed(alone))
        dead = torch.randint(0, written.vocab.tgt, (1, 59), generator=torch.Generator().manual_seed(token))
        state = constraint.advance(state, torch.cat([torch.tensor([[token]]), dead], dim=1))
        alone = constraint.advance(alone, torch.tensor([[token]]))
        assert state[:, :1].equal(alone)


def fallback_tree(n_words: int, written: Written) -> Tree:
    return fallback(["w"] * n_words, ["NN"] * n_words if written.form.tags else None)


def test_words_are_counted_without_padding_and_however_many_pieces_they_have() -> None:
    written = small(FORMS["brackets"]())
    constraint = written.constraint(6, 4)
    for n_pieces in (1, 3):
        src, pad = sentences([1, 4, 2], n_pieces=n_pieces)
        state = constraint.start(src, pad, torch.tensor([99] * 3))
        assert state[:, 0, WORDS].tolist() == [1, 4, 2]


def test_a_sentence_without_words_has_no_output() -> None:
    constraint = small(FORMS["brackets"]()).constraint(6, 4)
    assert not constraint.allowed(begin(constraint, [0], [9])).any()


@every_form
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_where_nothing_is_allowed_any_symbol_is_still_survived(form: Linear, depth: int) -> None:
    written = small(form)
    constraint = written.constraint(depth, 1)
    state = begin(constraint, [3], [2])
    assert not constraint.allowed(state).any()
    for token in range(written.vocab.tgt):
        state = constraint.advance(state, torch.tensor([[token]]))
        constraint.allowed(state)


def test_a_bracket_that_no_symbol_closes_is_never_opened() -> None:
    written = Written(FORMS["vinyals"](), ["(A", ")A", "(B", "XX"])
    allowed = written.constraint(6, 4).allowed(begin(written.constraint(6, 4), [1], [9]))
    assert [written.tokens[i - 4] for i in allowed[0, 0].nonzero()[:, 0]] == ["(A", "XX"]


def test_a_vocabulary_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="no token shifts a word"):
        Written(FORMS["vinyals"](), ["(A", ")A"]).constraint(6, 4)


@pytest.mark.slow  # the import of this device takes seconds
@every_form
def test_nothing_waits_for_the_device(form: Linear) -> None:
    """On a device without values, whatever looked at one would fail; and all tables have come along."""
    written = small(form)
    constraint = written.constraint(6, 4)
    src, pad = (x.to("meta") for x in sentences([2, 3]))
    state = constraint.start(src, pad, torch.tensor([9, 9], device="meta")).expand(-1, 4, -1)
    assert constraint.allowed(state).shape == (2, 4, written.vocab.tgt)
    after = constraint.advance(state, torch.zeros(2, 4, dtype=torch.long, device="meta"))
    assert (after.shape, after.device.type) == (state.shape, "meta")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a", "(TOP (S (XX a)))"),
        ("a b", "(TOP (S (XX a) (XX b)))"),
        ("a b c d", "(TOP (S (XX a) (S (XX b) (S (XX c) (XX d)))))"),
    ],
)
def test_the_fallback_branches_to_the_right(words: str, expected: str) -> None:
    assert str(fallback(words.split())) == expected


def test_the_fallback_takes_tags_and_any_number_of_words() -> None:
    words = [f"w{i}" for i in range(5000)]
    assert leaves(fallback(words, ["NN"] * 5000)) == [Word("NN", word) for word in words]
