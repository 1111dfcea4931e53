"""`python -m s2s_parsing.find_styles TREEBANK … -o FOLDER`: divides a treebank by annotation style.

Annotators who understood the guidelines differently leave long stretches of sentences with different rules. They are
found by a hidden Markov model: each sentence has one of K styles, mostly that of the sentence before it, and each style
has its own distribution of rules (a label with the labels of its children, words left out). The model is fitted by
expectation maximisation from several random initialisations; the result with the highest likelihood is used.

Shapes: T sentences, K styles, V rules.
"""

from __future__ import annotations

__all__ = ["StyleModel", "TreebankStyles", "divide", "main", "posteriors", "rules_of"]

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from s2s import ConfigError, DataError
from s2s.cli import guard
from s2s.io import write_lines
from s2s_parsing.tree import Tree
from s2s_parsing.treebank import check_overwriting, cleaned_trees, treebank_files

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = NDArray[np.float64]

RARE = 10
"""Rules that occur less often are left out"""
PRIOR = 50.0
"""Pseudo-counts of all rules together, distributed as in the whole treebank, added to the counts of each style"""
BLOCK = 100
"""Neighbouring sentences that get the same random initialisation"""
N_INITIALISATIONS = 5
N_ITERATIONS = 60
N_SHOWN = 12
"""Rules that are printed"""
MOST_STYLES = 20
"""The time grows with the cube of their number"""


@dataclass(frozen=True)
class StyleModel:
    """The rules of every style."""

    rules: Sequence[str]
    log_probs: Array
    """[K, V]"""
    persistence: float
    """Probability that a sentence has the style of the one before it"""

    def posteriors(self, trees: Sequence[Tree]) -> tuple[Array, float]:
        """[T, K], the probability of each style for each sentence, and the log-likelihood of all."""
        return self.of_rules(_numbered(trees, self.rules))

    def of_rules(self, sentences: Sequence[Sequence[int]]) -> tuple[Array, float]:
        """The same from the numbers of each sentence's rules."""
        emissions = np.array([self.log_probs[:, rules].sum(1) for rules in sentences])
        return posteriors(emissions, self.persistence)


@dataclass(frozen=True)
class TreebankStyles:
    """The styles of a treebank's sentences, the most frequent first."""

    model: StyleModel
    styles: NDArray[np.int64]
    """[T], the index of each sentence's style"""
    gain: float
    """Nats a sentence by which several styles explain the rules better than one"""

    def distinctive(self) -> list[tuple[str, Array]]:
        """The rules that differ most between styles, each with its frequency in 10,000 rules of each style, [K]."""
        probs = np.exp(self.model.log_probs)
        information = (probs * (self.model.log_probs - np.log(probs.mean(0)))).sum(0)
        return [(self.model.rules[i], 1e4 * probs[:, i]) for i in information.argsort()[::-1][:N_SHOWN]]


def rules_of(tree: Tree) -> Iterator[str]:
    """Every bracket of a tree as `NP -> DT NN`, each before those within it."""
    stack = [tree]
    while stack:
        label, children = stack.pop()
        yield f"{label} -> {' '.join(child.label if isinstance(child, Tree) else child.tag for child in children)}"
        stack.extend(child for child in reversed(children) if isinstance(child, Tree))


def posteriors(emissions: Array, persistence: float) -> tuple[Array, float]:
    """Log-probabilities of each sentence's rules in each style [T, K] -> the probability of each sentence's style
    [T, K], and the log-likelihood.

    The forward and backward messages are products of T matrices, all of whose prefixes are found in log2 T steps.
    """
    n_styles = emissions.shape[1]
    moves = np.full((n_styles, n_styles), (1 - persistence) / max(1, n_styles - 1))
    np.fill_diagonal(moves, persistence if n_styles > 1 else 1.0)
    most = emissions.max(1, keepdims=True)
    steps = moves * np.exp(emissions - most)[:, None, :]  # [T, K before, K now]
    prefixes, scale = _prefix_products(steps)
    suffixes = _prefix_products(steps[::-1].mT)[0][::-1].mT  # products of the steps from t to the end
    forward = prefixes.mean(1)  # every style is equally probable at first: `moves` keeps this distribution
    backward = np.concatenate([suffixes[1:].sum(2), np.ones((1, n_styles))])
    joint = forward * backward
    return joint / joint.sum(1, keepdims=True), float(np.log(forward[-1].sum()) + scale + most.sum())


def divide(trees: Sequence[Tree], n_styles: int, length: float, seed: int = 1) -> TreebankStyles:
    """Learn the styles of trees in their order. `length`: sentences after which the style changes, on average."""
    counts = Counter(rule for tree in trees for rule in rules_of(tree))
    rules = [rule for rule, count in counts.items() if count >= RARE]
    if not rules:
        raise DataError(f"no rule occurs {RARE} times in {len(trees):,} trees; styles are found in larger treebanks")
    sentences = _numbered(trees, rules)
    persistence = 1 - 1 / length
    draws = np.random.default_rng(seed)
    starts = [_random_shares(draws, len(trees), n_styles) for _ in range(N_INITIALISATIONS)]
    models = [_learn(sentences, rules, shares, persistence) for shares in starts]
    model, shares, likelihood = max(models, key=lambda one: one[2])
    *_, alone = _learn(sentences, rules, np.ones((len(trees), 1)), persistence)
    order = shares.sum(0).argsort()[::-1]
    styles = shares[:, order].argmax(1)
    n_found = len(np.unique(styles))
    if n_found < n_styles:
        raise DataError(f"only {n_found} of {n_styles} styles have trees, of {len(trees):,}; give fewer styles")
    model = StyleModel(rules, model.log_probs[order], persistence)
    return TreebankStyles(model, styles, (likelihood - alone) / len(trees))


def _numbered(trees: Sequence[Tree], rules: Sequence[str]) -> list[list[int]]:
    """The numbers of each tree's rules, without those that are not in `rules`."""
    numbers = {rule: number for number, rule in enumerate(rules)}
    return [[numbers[rule] for rule in rules_of(tree) if rule in numbers] for tree in trees]


def _learn(
    sentences: Sequence[Sequence[int]], rules: Sequence[str], shares: Array, persistence: float
) -> tuple[StyleModel, Array, float]:
    """Expectation maximisation from the shares [T, K] of the styles in sentences, until these converge."""
    flat = np.array([rule for sentence in sentences for rule in sentence])
    owners = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    overall = np.bincount(flat, minlength=len(rules)) / len(flat)
    for _ in range(N_ITERATIONS):
        counts = np.array([np.bincount(flat, share[owners], len(rules)) for share in shares.T]) + PRIOR * overall
        model = StyleModel(rules, np.log(counts / counts.sum(1, keepdims=True)), persistence)
        before, (shares, likelihood) = shares, model.of_rules(sentences)
        if np.abs(shares - before).max() < 1e-3:
            break
    return model, shares, likelihood


def _random_shares(draws: np.random.Generator, n_sentences: int, n_styles: int) -> Array:
    """Random shares [T, K], the same for neighbouring sentences."""
    blocks = draws.dirichlet([0.5] * n_styles, size=n_sentences // BLOCK + 1)
    return np.repeat(blocks, BLOCK, axis=0)[:n_sentences]


def _prefix_products(matrices: Array) -> tuple[Array, float]:
    """[T, K, K] -> the products of the first 1, 2, …, T matrices, each divided by a number, and the logarithm of the
    last one's number."""
    products, scales, step = matrices.copy(), np.zeros(len(matrices)), 1
    while step < len(products):
        joined = products[:-step] @ products[step:]
        most = joined.max((1, 2), keepdims=True)
        scales[step:] = scales[:-step] + scales[step:] + np.log(most[:, 0, 0])
        products[step:] = joined / most
        step *= 2
    return products, float(scales[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m s2s_parsing.find_styles", description="Divide a treebank by annotation style"
    )
    parser.add_argument("treebank", type=Path, nargs="+", help="files or folders, sentences in the order of annotation")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for a treebank of each style")
    parser.add_argument("--styles", type=int, default=2, help="number of styles (2)")
    parser.add_argument("--length", type=float, default=100, help="sentences in one style, on average (100)")
    parser.add_argument(
        "--like", type=Path, nargs="*", default=[], help="treebanks whose share of each style is printed"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random initialisations (1)")
    options = parser.parse_args(arguments)
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    _check(options)
    files = [options.output / f"style{style}.mrg.gz" for style in range(1, options.styles + 1)]
    trees = _read(options.treebank, without=files)
    like = {path: _read([path]) for path in options.like}
    division = divide(trees, options.styles, options.length, options.seed)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{options.output}: cannot be made ({error.strerror})") from None
    for style, file in enumerate(files):
        n_written = write_lines(
            file, (str(tree) for tree, tree_style in zip(trees, division.styles, strict=True) if tree_style == style)
        )
        print(f"{file}: {n_written:,} trees", file=sys.stderr)
    print(f"{division.gain:.2f} nats a sentence better than one style; of 10,000 rules in each style:", file=sys.stderr)
    for rule, frequencies in division.distinctive():
        print("".join(f"{frequency:8.1f}" for frequency in frequencies), "", rule, file=sys.stderr)
    for path, others in like.items():
        shares = division.model.posteriors(others)[0].mean(0)
        print(f"{path}:", ", ".join(f"{s:.0%} style{i}" for i, s in enumerate(shares, 1)), file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> None:
    if not 2 <= options.styles <= MOST_STYLES:
        raise ConfigError(f"--styles {options.styles}: give 2 to {MOST_STYLES}")
    if not options.length > 1:
        raise ConfigError(f"--length {options.length:g}: give more than 1 sentence")
    if not 1 - 1 / options.length < 1:  # a style that never changes cannot be found by expectation maximisation
        raise ConfigError(f"--length {options.length:g}: too many sentences; give fewer than the treebank has")
    if options.seed < 0:
        raise ConfigError(f"--seed {options.seed}: give 0 or more")


def _read(paths: Sequence[Path], without: Sequence[Path] = ()) -> list[Tree]:
    """The trees of all paths; an error if there are none, or if one of the files is `without`, the files to write."""
    files = [file for path in paths for file in treebank_files(path)]
    for output in without:
        check_overwriting(output, files)
    trees = list(cleaned_trees(files))
    if not trees:
        raise DataError(f"{', '.join(map(str, paths))}: no trees in it")
    return trees


if __name__ == "__main__":
    sys.exit(main())
