"""The grammar parser against every annotation of a tree and every tree of a sentence; EM; round trips of trees."""

from __future__ import annotations

import functools
import io
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from s2s.errors import DataError
from s2s_parsing.source_encoder import words_of
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.treebank import read_brackets
from s2s_pcfg.coarse import CoarseChart, CoarseGrammar
from s2s_pcfg.command import main
from s2s_pcfg.em import Schedule, expectation
from s2s_pcfg.fine import FineChart
from s2s_pcfg.grammar import Grammar, normalised, smoothed
from s2s_pcfg.parser import Parser
from s2s_pcfg.refine import Plan, iterate, merge, merge_losses, split, train
from s2s_pcfg.treebank import Forest, Symbols, forest_of, written
from s2s_pcfg.words import WordClasses, signature

TREES = [
    "(TOP (S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (A old) (N cat)))))",
    "(TOP (S (NP (N dogs)) (VP (V see) (NP (N cats)) (PP (P with) (NP (D the) (N dog))))))",
    "(TOP (S (VP (V see))))",
    "(TOP (NP (NP (D a) (N cat)) (PP (P with) (NP (NP (D a) (N dog)) (PP (P with) (NP (N cats)))))))",
    "(TOP (FRAG (NP (N cats)) (. .)))",
]


def learnt(n_splits: int = 1, n: int = 3) -> tuple[Grammar, Schedule]:
    """A grammar of these trees whose substates differ."""
    symbols, words = Symbols(), Symbols()
    forest = forest_of(TREES, symbols, words, lambda _tag, word, _position: word)
    schedule = Schedule.of(forest)
    grammar, _ = iterate(Grammar.of_treebank(forest, symbols, words), schedule, 1, str, "")
    draw = torch.Generator().manual_seed(1)
    for _ in range(n_splits):
        grammar, _ = iterate(split(grammar, 0.5, draw), schedule, n, str, "")
    return grammar, schedule


def nodes_of(forest: Forest, grammar: Grammar, tree: int) -> tuple[list[tuple[str, int, int]], list[str], int]:
    """A tree of the forest in the form that `written` takes."""
    nodes: list[tuple[str, int, int]] = []
    words: list[str] = []

    def visit(node: int) -> int:
        below = [visit(int(c)) for c in (forest.left[node], forest.right[node]) if c >= 0]
        name = grammar.symbols.names[int(forest.symbol[node])]
        if not below:
            words.append(grammar.words.names[int(forest.lexical[forest.rule[node], 1])])
            below = [-1, len(words) - 1]
        nodes.append((name, *below, -1)[:3])  # type: ignore[arg-type]
        return len(nodes) - 1

    root = visit(int(forest.roots[tree]))
    return nodes, words, root


def test_trees_come_back_from_their_arrays() -> None:
    grammar, schedule = learnt(0)
    assert [written(*nodes_of(schedule.forest, grammar, i)) for i in range(len(TREES))] == TREES


def test_the_treebank_grammar_has_relative_frequencies() -> None:
    grammar, schedule = learnt(0)
    name, forest = grammar.symbols.ids, schedule.forest
    is_leaf, has_two = forest.left < 0, forest.right >= 0
    binary = forest.rule[has_two].bincount(minlength=len(forest.binary)).tolist()
    unary = forest.rule[~has_two & ~is_leaf].bincount(minlength=len(forest.unary)).tolist()
    rules = {tuple(rule): i for i, rule in enumerate(forest.binary.tolist())}
    own = rules[name["NP"], name["D"], name["N"]]
    total = sum(n for rule, n in zip(forest.binary[:, 0], binary, strict=True) if rule == name["NP"])
    total += sum(n for rule, n in zip(forest.unary[:, 0], unary, strict=True) if rule == name["NP"])
    assert grammar.p_binary[own].item() == pytest.approx(binary[own] / total)


def probability(grammar: Grammar, forest: Forest, tree: int) -> float:
    """Of one tree: the sum over all ways to annotate its nodes."""

    @functools.cache
    def of(node: int, substate: int) -> float:
        rule, children = int(forest.rule[node]), [int(c) for c in (forest.left[node], forest.right[node]) if c >= 0]
        if not children:
            return grammar.p_lexical[rule, substate].item()
        p = (grammar.p_unary, grammar.p_binary)[len(children) - 1][rule, substate]
        return sum(
            p[below].item() * math.prod(of(c, k) for c, k in zip(children, below, strict=True))
            for below in itertools.product(range(grammar.k), repeat=len(children))
        )

    root = int(forest.roots[tree])
    return sum(grammar.p_root[forest.symbol[root], k].item() * of(root, k) for k in range(grammar.k))


def test_the_likelihood_is_that_of_all_annotations() -> None:
    grammar, schedule = learnt()
    expected = sum(math.log(probability(grammar, schedule.forest, i)) for i in range(len(TREES)))
    assert expectation(grammar, schedule).log_likelihood == pytest.approx(expected, rel=1e-10)


def test_expected_counts_are_the_gradient_of_the_likelihood() -> None:
    """d log P / d log p(rule) is the rule's expected count; by differences of the enumerated likelihood."""
    grammar, schedule = learnt()
    counts = expectation(grammar, schedule).counts
    likelihood = lambda g: sum(math.log(probability(g, schedule.forest, i)) for i in range(len(TREES)))  # noqa: E731
    for name, at in (("p_binary", (0, 0, 1, 0)), ("p_unary", (0, 1, 0)), ("p_lexical", (1, 0)), ("p_root", (3, 1))):
        p, e = getattr(grammar, name), 1e-5
        more, less = p.clone(), p.clone()
        more[at], less[at] = p[at] * math.exp(e), p[at] * math.exp(-e)
        up, down = (likelihood(replace(grammar, **{name: changed})) for changed in (more, less))
        assert getattr(counts, name)[at].item() == pytest.approx((up - down) / (2 * e), abs=1e-6)


def test_the_likelihood_never_falls_with_an_iteration() -> None:
    grammar, schedule = learnt(2, 0)
    last = -math.inf
    for _ in range(15):
        found = expectation(grammar, schedule)
        assert found.log_likelihood >= last - 1e-9
        grammar, last = normalised(found.counts), found.log_likelihood
    assert last > expectation(learnt(0)[0], schedule).log_likelihood, "substates explain nothing"


def test_merging_all_splits_gives_the_grammar_before_them() -> None:
    before, schedule = learnt(0)
    grammar = split(before, 0.3, torch.Generator().manual_seed(2))
    found = expectation(grammar, schedule)
    merged = merge(found.counts, grammar, merge_losses(grammar, schedule, found), 1.0)
    assert merged.n_substates.tolist() == before.n_substates.tolist()
    assert expectation(normalised(expectation(merged, schedule).counts), schedule).log_likelihood == pytest.approx(
        expectation(before, schedule).log_likelihood
    )


def test_a_merge_undoes_the_splits_that_matter_least() -> None:
    grammar, schedule = learnt(1, 8)
    found = expectation(grammar, schedule)
    losses = merge_losses(grammar, schedule, found)
    merged = merge(found.counts, grammar, losses, 0.5)
    kept = merged.n_substates == 2
    assert kept.sum().item() == math.ceil(len(grammar.symbols) / 2)
    assert losses[kept, 0].min() >= losses[~kept, 0].max()
    assert all(total == pytest.approx(1) for total in totals(merged))


def totals(grammar: Grammar) -> list[float]:
    """The sum of each substate's rules."""
    total = torch.zeros_like(grammar.p_root)
    for p, upper in (
        (grammar.p_binary.sum((2, 3)), grammar.binary[:, 0]),
        (grammar.p_unary.sum(2), grammar.unary[:, 0]),
        (grammar.p_lexical, grammar.lexical[:, 0]),
    ):
        total.index_add_(0, upper, p)
    return total[grammar.real].tolist()


def test_smoothed_rules_still_sum_to_one() -> None:
    assert totals(smoothed(learnt(2)[0], 0.1, 0.3)) == pytest.approx([1.0] * int(learnt(2)[0].n_substates.sum()))


def every_tree(grammar: Grammar, words: list[str]) -> float:
    """The probability of a sentence: all trees with all annotations, recursively."""
    lexical = {tuple(pair): i for i, pair in enumerate(grammar.lexical.tolist())}

    @functools.cache
    def bottom(i: int, j: int, x: int, k: int) -> float:
        if j == i + 1:
            rule = lexical.get((x, grammar.words.ids[words[i]]))
            return 0.0 if rule is None else grammar.p_lexical[rule, k].item()
        return sum(
            grammar.p_binary[r, k, a, b].item() * top(i, m, y, a) * top(m, j, z, b)
            for r, (upper, y, z) in enumerate(grammar.binary.tolist())
            if upper == x
            for m in range(i + 1, j)
            for a, b in itertools.product(range(grammar.k), repeat=2)
            if grammar.p_binary[r, k, a, b] > 0
        )

    @functools.cache
    def top(i: int, j: int, x: int, k: int) -> float:
        return bottom(i, j, x, k) + sum(
            grammar.p_unary[r, k, a].item() * bottom(i, j, y, a)
            for r, (upper, y) in enumerate(grammar.unary.tolist())
            if upper == x
            for a in range(grammar.k)
        )

    n, k = len(words), grammar.k
    return sum(grammar.p_root[x, s].item() * top(0, n, x, s) for x in range(len(grammar.symbols)) for s in range(k))


SENTENCE = ["the", "dog", "with", "a", "cat"]


def emissions(grammar: Grammar) -> torch.Tensor:
    """[n, X, K] of the sentence"""
    found = torch.zeros(len(SENTENCE), *grammar.p_root.shape, dtype=torch.double)
    for i, word in enumerate(SENTENCE):
        rows = grammar.lexical[:, 1] == grammar.words.ids[word]
        found[i].index_add_(0, grammar.lexical[rows, 0], grammar.p_lexical[rows])
    return found


def coarse_chart(grammar: Grammar) -> CoarseChart:
    p = grammar.p_root[:, 0], grammar.p_binary.flatten(), grammar.p_unary.flatten()
    return CoarseChart(CoarseGrammar.of(grammar.binary, grammar.unary, p), emissions(grammar)[..., 0])


def test_the_coarse_charts_inside_is_the_sum_over_all_trees() -> None:
    grammar, _ = learnt(0)
    chart = coarse_chart(grammar)
    assert chart.likelihood == pytest.approx(every_tree(grammar, SENTENCE), rel=1e-9)
    bottom, top = chart.posteriors()
    words = torch.arange(len(SENTENCE))
    torch.testing.assert_close(bottom[words, words + 1].sum(1), torch.ones(len(SENTENCE), dtype=torch.double))
    assert top[0, len(SENTENCE)].sum().item() == pytest.approx(1)


def test_the_fine_charts_inside_is_the_sum_over_all_annotated_trees() -> None:
    grammar, _ = learnt()
    everything = torch.ones(len(SENTENCE), len(SENTENCE) + 1, len(grammar.symbols), dtype=torch.bool)
    chart = FineChart(grammar, emissions(grammar), everything, everything)
    assert chart.likelihood == pytest.approx(every_tree(grammar, SENTENCE), rel=1e-9)
    binary = torch.cat([level[0] for level in chart.posteriors()])
    assert binary.sum().item() == pytest.approx(len(SENTENCE) - 1)  # a binary tree has as many inner nodes


def test_pruning_at_nothing_changes_nothing() -> None:
    grammar, _ = learnt(0)
    bottom, top = (p > 0 for p in coarse_chart(grammar).posteriors())
    chart = FineChart(grammar, emissions(grammar), bottom, top)
    assert chart.likelihood == pytest.approx(every_tree(grammar, SENTENCE), rel=1e-9)


def test_rare_words_are_known_by_their_shape() -> None:
    classes = WordClasses.learn(["the", "cat", "the", "cat", "Zeus"], rare=1)
    assert [classes(w, 1) for w in ("the", "Zeus", "1,024", "re-entered", "IBM")] == [
        "the", "UNK-CAP-us", "UNK-NUM", "UNK-DASH-ed", "UNK-ALLCAPS",
    ]  # fmt: skip
    assert signature("Running", first=True) == "UNK-INIT-ing"


def test_a_word_has_the_same_class_in_training_as_in_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trees = ["(TOP (S (NP (NNS Shares)) (VP (VBP fell))))", "(TOP (S (NP (NNP Maggie) (NNP Shares)) (VP (VBP fell))))"]
    Path("trees.mrg").write_text("".join(f"{tree}\n" for tree in trees))
    assert main(["train", "task.train=trees.mrg", "splits=0", "iterations=1", "rare=2", "--quiet"]) == 0
    parser = Parser(Path("grammar.npz"), 0.0)
    assert parser.classes is not None
    sentences = [["Shares", "fell"], ["Maggie", "Shares", "fell"]]
    used = {parser.classes(word, i) for sentence in sentences for i, word in enumerate(sentence)}
    assert used == set(parser.grammar.words.names)


def test_a_tree_of_weight_two_is_a_tree_given_twice() -> None:
    word = lambda _tag, word, _position: word  # noqa: E731
    grammars = []
    for trees, weights in ((TREES + TREES[1:3], None), (TREES, [1.0, 2.0, 2.0, 1.0, 1.0])):
        symbols, words = Symbols(), Symbols()
        forest = forest_of(trees, symbols, words, word, weights)
        start = Grammar.of_treebank(forest, symbols, words)
        grammars.append(
            train(start, Schedule.of(forest), Plan(2, 3, 0.5, 0.01, 0.1, 0.1), 3, str)
        )  # a seed without a tie that rounding decides
    for name in ("n_substates", "p_root", "p_binary", "p_unary", "p_lexical"):
        torch.testing.assert_close(*(getattr(grammar, name) for grammar in grammars))


def test_the_command_counts_trees_by_the_weights_of_their_corpora(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.mrg").write_text("(TOP (S (N dogs) (V see)))\n" * 2)
    Path("b.mrg").write_text("(TOP (FRAG (N cats) (. .)))\n" * 3)
    corpora = "{a: {files: a.mrg, weight: 0.5}, b: {files: b.mrg, weight: 3}}"
    assert main(["train", f"task.train={corpora}", "splits=0", "iterations=1", "--quiet"]) == 0
    grammar, _ = Grammar.load(Path("grammar.npz"))
    assert grammar.p_root[grammar.symbols.ids["FRAG"], 0].item() == pytest.approx(3 * 3 / (0.5 * 2 + 3 * 3))


@pytest.mark.parametrize("leaves", ["words", "tags"])
def test_the_command_learns_its_training_trees(
    leaves: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trees.mrg").write_text("".join(f"{tree}\n" for tree in TREES * 3))
    assert main(["train", "task.train=trees.mrg", f"leaves={leaves}", "splits=2", "iterations=6", "--quiet"]) == 0
    words = ["the dog sees a old cat", "", "see", "cats ."]
    tags = ["the/D dog/N sees/V a/D old/A cat/N", "", "see/V", "cats/N ./."]
    Path("in.txt").write_text("".join(f"{line}\n" for line in (words if leaves == "words" else tags)))
    assert main(["parse", "input=in.txt", "--quiet"]) == 0
    assert capsys.readouterr().out.split("\n") == [TREES[0], "", TREES[2], TREES[4], ""]


def test_every_line_becomes_a_tree_of_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trees.mrg").write_text("".join(f"{tree}\n" for tree in TREES * 3))
    assert main(["train", "task.train=trees.mrg", "splits=0", "iterations=1", "--quiet"]) == 0
    sentences = ["a old\u00a0cat", "see ( dogs )", "cats\u2028 .", "see"]
    text = "\n".join(sentences)  # the last line has no end
    Path("in.txt").write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for name in ("in.txt", "-"):
        assert main(["parse", f"input={name}", "--quiet"]) == 0
        trees = read_brackets(enumerate(capsys.readouterr().out.split("\n"), 1))
        assert [[leaf.word for leaf in leaves(tree)] for tree in trees if isinstance(tree, Tree)] == list(
            map(words_of, sentences)
        )


@pytest.mark.parametrize(
    "tree",
    ["(TOP (NP (D a) (N old\u00a0cat)))", "(TOP ( (N cats) (. .)))", "(TOPIC (N cats) (. .))"],
    ids=["a blank that separates no words", "no label", "a label that begins as TOP does"],
)
def test_odd_trees_are_given_back(tree: str) -> None:
    symbols, words = Symbols(), Symbols()
    forest = forest_of([tree], symbols, words, lambda _tag, word, _position: word)
    grammar = Grammar.of_treebank(forest, symbols, words)
    assert written(*nodes_of(forest, grammar, 0)) == (tree if tree.startswith("(TOP ") else f"(TOP {tree})")


def test_what_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no.npz").write_text("no")
    assert main(["parse", "grammar=no.npz"]) == 2
    assert "no.npz: not a grammar of s2s-pcfg" in capsys.readouterr().err
    assert main(["trian"]) == 2
    assert "Did you mean 'train'?" in capsys.readouterr().err
    with pytest.raises(DataError, match="not a tree in brackets"):
        forest_of(["(S (NP"], Symbols(), Symbols(), lambda _tag, word, _position: word)


def test_training_is_the_same_for_the_same_seed() -> None:
    _, schedule = learnt(0)
    start = learnt(0)[0]
    first, second = (train(start, schedule, Plan(2, 3, 0.5, 0.01, 0.1, 0.1), 7, str) for _ in range(2))
    assert torch.equal(first.p_binary, second.p_binary)


@pytest.mark.parametrize(
    "trees",
    ["(TOP (S (N dogs) (V see)))\n", "(TOP (S (VP (V see))))\n", "(TOP (N cats))\n"],
    ids=["no unary rule", "no binary rule", "no rule but of words"],
)
def test_a_treebank_without_rules_of_a_kind_is_learnt(
    trees: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trees.mrg").write_text(trees)
    assert main(["train", "task.train=trees.mrg", "splits=2", "iterations=2", "rare=0", "--quiet"]) == 0
    Path("in.txt").write_text(" ".join(re.findall(r" ([a-z]+)\)", trees)) + "\n")
    assert main(["parse", "input=in.txt", "--quiet"]) == 0
    assert capsys.readouterr().out == trees


@pytest.mark.parametrize(
    "tree", ["", "a b", ")", "(A b) (C d)", "(A b", "(A (B c) d)", "(A)", "(A b c)", "((((", "(A (B c) (D))"]
)
def test_what_is_no_tree_is_refused(tree: str) -> None:
    with pytest.raises(DataError, match="not a tree in brackets"):
        forest_of([tree], Symbols(), Symbols(), lambda _tag, word, _position: word)


def test_a_task_without_trees_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "task=translation_tiny", "--quiet"]) == 2
    assert "a task whose outputs are trees?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
