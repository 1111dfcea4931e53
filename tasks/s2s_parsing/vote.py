"""`python -m s2s_parsing.vote PARSED … -o TREES`: one tree for each sentence from the outputs of several parsers.

Parsers vote on labelled brackets (Henderson and Brill, 1999): the result consists of those that have more than half of
the votes. Two that cross cannot both have more than half, so the result is a tree; of all trees it has the highest
expected number of correct brackets less wrong ones. Each parser has one vote, divided over its n-best list in
proportion to the probabilities of the outputs; a parser whose search found no tree for a sentence abstains.
"""

from __future__ import annotations

__all__ = ["Bracket", "Candidate", "brackets_of", "main", "read_candidates", "tree_of", "vote"]

import argparse
import sys
from collections import Counter, defaultdict, deque
from itertools import combinations, groupby, zip_longest
from math import exp, inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s import DataError
from s2s.cli import guard
from s2s.data import numbered_lines, pair_format
from s2s.io import parse_json, write_lines
from s2s_parsing.task import read_tree
from s2s_parsing.tree import TOP, Tree, Word, leaves
from s2s_parsing.treebank import check_overwriting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from s2s_parsing.tree import Node

MAJORITY = 0.5 + 1e-9
"""Share of the votes that a bracket must exceed: a half, and a margin for rounding"""


class Bracket(NamedTuple):
    """A label over the words from `start` to before `end`."""

    label: str
    start: int
    end: int
    nth: int
    """How many brackets with the same label and the same words are around it"""


class Candidate(NamedTuple):
    """A tree with its share of a parser's vote, 0 if the search did not find it."""

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
    remaining = deque(brackets)
    opened: list[tuple[str, int, list[Node]]] = [(TOP, len(words) + 1, [])]
    for position, word in enumerate(words):
        while remaining and remaining[0].start == position:
            bracket = remaining.popleft()
            opened.append((bracket.label, bracket.end, []))
        opened[-1][2].append(word)
        while opened[-1][1] == position + 1:
            label, _, children = opened.pop()
            opened[-1][2].append(Tree(label, tuple(children)))
    return Tree(TOP, tuple(opened[0][2]))


def vote(parsers: Sequence[Sequence[Candidate]]) -> Tree:
    """The tree of the brackets that have more than half of the votes, from the candidates of each parser.

    Of two brackets over the same words, the one that is outside the other in more of the votes stays outside it. Where
    no parser has found a tree, the first one's output is taken.
    """
    voters = [candidates for candidates in parsers if any(one.share for one in candidates)]
    if not voters:
        return parsers[0][0].tree
    ballots = [(brackets_of(one.tree), one.share / len(voters)) for candidates in voters for one in candidates]
    votes = defaultdict[Bracket, float](float)
    for brackets, share in ballots:
        for bracket in brackets:
            votes[bracket] += share
    elected = {bracket: share for bracket, share in votes.items() if share > MAJORITY}
    n_outer = _n_outer(ballots, elected)
    return tree_of(sorted(elected, key=lambda one: (one.start, -one.end, n_outer[one])), _tagged_words(voters))


def _n_outer(ballots: Iterable[tuple[Sequence[Bracket], float]], elected: Container[Bracket]) -> Counter[Bracket]:
    """For each elected bracket, how many others over the same words are outside it in more votes than inside it."""
    votes = defaultdict[tuple[Bracket, Bracket], float](float)
    for brackets, share in ballots:
        for _, chain in groupby((one for one in brackets if one in elected), lambda one: (one.start, one.end)):
            for pair in combinations(chain, 2):
                votes[pair] += share
    return Counter(inner for (outer, inner), share in votes.items() if share > votes.get((inner, outer), 0.0))


def _tagged_words(parsers: Sequence[Sequence[Candidate]]) -> list[Word]:
    """The words, each with the tag that has the most votes."""
    words = leaves(parsers[0][0].tree)
    votes = [defaultdict[str, float](float) for _ in words]
    for candidate in (candidate for candidates in parsers for candidate in candidates):
        for shares, leaf in zip(votes, leaves(candidate.tree), strict=True):
            shares[leaf.tag] += candidate.share
    return [Word(max(shares, key=shares.__getitem__), leaf.word) for shares, leaf in zip(votes, words, strict=True)]


def read_candidates(path: Path) -> Iterator[tuple[str, list[Candidate]]]:
    """Location and candidates of each line of s2s-generate's outputs, jsonl or trees; none for an empty sentence."""
    for number, line in numbered_lines(path, "error"):
        location = f"{path}:{number}"
        outputs = _of_json(str(line), location) if pair_format(path) == "jsonl" else [(str(line), 0.0)]
        scored = [(_read_tree(tree, location), score) for tree, score in outputs if tree.strip()]
        best = max((score for _, score in scored if score > -inf), default=0.0)
        weights = [exp(score - best) for _, score in scored]
        total = sum(weights) or 1.0
        yield location, [Candidate(tree, w / total) for (tree, _), w in zip(scored, weights, strict=True)]


def _of_json(line: str, location: str) -> list[tuple[str, float]]:
    """Distinct outputs with their best scores, -inf for a tree that the search did not find; none for an empty line."""
    try:
        record = parse_json(line) if line.strip() else {"nbest": []}
        outputs = [(one["hyp"], one["score"]) for one in record.get("nbest", [record])]
        scored = [(str(tree), -inf if score is None else float(score)) for tree, score in outputs]
        if all(score < inf for _, score in scored):  # nor NaN
            best = {tree: max(s for other, s in scored if other == tree) for tree, _ in scored}
            return list(best.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DataError(f"{location}: expected hyp and score, as s2s-generate format=jsonl writes them")


def _read_tree(line: str, location: str) -> Tree:
    try:
        return read_tree(line)
    except DataError as error:
        raise DataError(f"{location}: {error}") from None


def _elections(files: Sequence[Path]) -> Iterator[str]:
    """The elected tree of every sentence; an empty line for an empty sentence."""
    for lines in zip_longest(*(read_candidates(file) for file in files)):
        if None in lines:
            short = [str(file) for file, line in zip(files, lines, strict=True) if line is None]
            raise DataError(
                f"{', '.join(short)}: fewer sentences than the other outputs; give outputs for the same sentences"
            )
        locations, parsers = zip(*lines, strict=True)
        words = {tuple(leaf.word for leaf in leaves(one.tree)) for candidates in parsers for one in candidates}
        if len(words) > 1 or (words and not all(parsers)):
            raise DataError(f"{', '.join(locations)}: not the same words; give outputs for the same sentences")
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
    check_overwriting(options.output, options.parsed)
    n_written = write_lines(options.output, _elections(options.parsed))
    print(f"{options.output}: {n_written:,} trees, files that voted: {len(options.parsed)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
