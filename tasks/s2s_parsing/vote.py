"""`python -m s2s_parsing.vote PARSED … -o TREES`: one tree for each sentence from the outputs of several parsers.

Parsers vote on brackets (Henderson and Brill, 1999): one with its label is in the result if it has more than half of
the votes. Of two that cross at most one has, so that the result is a tree, and the tree with the highest expected
number of correct brackets less wrong ones. A parser's vote is divided over its n-best list by the probabilities of the
outputs.
"""

from __future__ import annotations

__all__ = ["Bracket", "Candidate", "brackets_of", "main", "read_candidates", "tree_of", "vote"]

import argparse
import sys
from collections import Counter, defaultdict, deque
from itertools import zip_longest
from math import exp, inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s import ConfigError, DataError
from s2s.cli import guard
from s2s.data import numbered_lines
from s2s.io import parse_json, write_lines
from s2s_parsing.task import read_tree
from s2s_parsing.tree import TOP, Tree, Word, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s_parsing.tree import Node

MAJORITY = 0.5 + 1e-9
"""Share of the votes that a bracket must have; rounding decides nothing"""


class Bracket(NamedTuple):
    """A label over the words from `start` to before `end`."""

    label: str
    start: int
    end: int
    nth: int
    """How many brackets with the same label and the same words are around it"""


class Candidate(NamedTuple):
    """A tree with its share of a parser's vote."""

    tree: Tree
    share: float


def brackets_of(tree: Tree) -> list[Bracket]:
    """All brackets but the outermost, each before those within it."""
    found: list[tuple[str, int, int]] = []
    seen = Counter[tuple[str, int, int]]()
    open_at: list[int] = []
    n_words = 0
    stack: list[Node | None] = [*reversed(tree.children)]
    while stack:
        node = stack.pop()
        if node is None:
            label, start, _ = found[open_at[-1]]
            found[open_at.pop()] = label, start, n_words
        elif isinstance(node, Word):
            n_words += 1
        else:
            open_at.append(len(found))
            found.append((node.label, n_words, n_words))
            stack.append(None)
            stack.extend(reversed(node.children))
    brackets = []
    for span in found:
        brackets.append(Bracket(*span, seen[span]))
        seen[span] += 1
    return brackets


def tree_of(brackets: Iterable[Bracket], words: Sequence[Word]) -> Tree:
    """The tree under TOP of brackets that do not cross, each before those within it."""
    left = deque(brackets)
    opened: list[tuple[str, int, list[Node]]] = [(TOP, len(words) + 1, [])]
    for place, word in enumerate(words):
        while left and left[0].start == place:
            opened.append((left[0].label, left.popleft().end, []))
        opened[-1][2].append(word)
        while opened[-1][1] == place + 1:
            label, _, children = opened.pop()
            opened[-1][2].append(Tree(label, tuple(children)))
    return Tree(TOP, tuple(opened[0][2]))


def vote(parsers: Sequence[Sequence[Candidate]]) -> Tree:
    """The tree of the brackets that have more than half of the votes, from the candidates of each parser.

    Brackets over the same words are in the order that they have in most candidates, by their mean place among all.
    Each word has the tag with the most votes.
    """
    votes, places = defaultdict[Bracket, float](float), defaultdict[Bracket, float](float)
    tags = [Counter[str]() for _ in leaves(parsers[0][0].tree)]
    for candidate in (candidate for candidates in parsers for candidate in candidates):
        share = candidate.share / len(parsers)
        for place, bracket in enumerate(brackets_of(candidate.tree)):
            votes[bracket] += share
            places[bracket] += share * place
        for counts, leaf in zip(tags, leaves(candidate.tree), strict=True):
            counts[leaf.tag] += share  # type: ignore[assignment]  # shares of votes
    elected = [bracket for bracket, share in votes.items() if share > MAJORITY]
    elected.sort(key=lambda one: (one.start, -one.end, places[one] / votes[one]))
    words = leaves(parsers[0][0].tree)
    return tree_of(elected, [Word(max(c, key=c.__getitem__), leaf.word) for c, leaf in zip(tags, words, strict=True)])


def read_candidates(path: Path) -> Iterator[tuple[str, list[Candidate]]]:
    """Place and candidates of each line of s2s-generate's outputs, jsonl or trees; none for an empty sentence."""
    for number, line in numbered_lines(path, "error"):
        place = f"{path}:{number}"
        outputs = _of_json(str(line), place) if path.suffix == ".jsonl" else [(str(line), 0.0)]
        scored = [(read_tree(tree), score) for tree, score in outputs if tree.strip()]
        most = max((score for _, score in scored), default=0.0)
        weights = [1.0 if score == most else exp(score - most) for _, score in scored]
        yield place, [Candidate(tree, w / sum(weights)) for (tree, _), w in zip(scored, weights, strict=True)]


def _of_json(line: str, place: str) -> list[tuple[str, float]]:
    """Outputs with their scores; an output that the search did not find has none."""
    try:
        record = parse_json(line)
        outputs = [(one["hyp"], one["score"]) for one in record.get("nbest", [record])]
        return [(str(tree), -inf if score is None else float(score)) for tree, score in outputs]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{place}: expected hyp and score, as s2s-generate format=jsonl writes them") from None


def _elections(files: Sequence[Path]) -> Iterator[str]:
    """The elected tree of every sentence; an empty line for an empty sentence."""
    for lines in zip_longest(*(read_candidates(file) for file in files)):
        if None in lines:
            short = [str(file) for file, line in zip(files, lines, strict=True) if line is None]
            raise DataError(
                f"{', '.join(short)}: fewer sentences than the other outputs; give outputs for the same sentences"
            )
        places, parsers = zip(*lines, strict=True)
        words = {tuple(leaf.word for leaf in leaves(one.tree)) for candidates in parsers for one in candidates}
        if len(words) > 1 or (words and not all(parsers)):
            raise DataError(f"{', '.join(places)}: not the same words; give outputs for the same sentences")
        yield str(vote(parsers)) if words else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m s2s_parsing.vote", description="One tree for each sentence, by vote of several parsers"
    )
    parser.add_argument("parsed", type=Path, nargs="+", help="what s2s-generate wrote: trees, or format=jsonl nbest=8")
    parser.add_argument("-o", "--output", type=Path, required=True, help="trees to write; .gz is compressed")
    options = parser.parse_args(arguments)
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.output in options.parsed:
        raise ConfigError(f"{options.output}: both read and written; give another name with -o")
    n_written = write_lines(options.output, _elections(options.parsed))
    print(f"{options.output}: {n_written:,} trees, files that voted: {len(options.parsed)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
