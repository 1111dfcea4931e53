"""`python -m s2s_parsing.silver PARSED … -o SILVER`: selects a parser's outputs for self-training (section 6.3).

Reads the output of `s2s-generate format=tsv`: a sentence, its tree, and the tree's score. With `search.alpha=1
search.length_penalty=power` the score is the mean log-probability of a token, which is comparable across lengths.
"""

from __future__ import annotations

__all__ = ["Parse", "confident", "main", "read_parses"]

import argparse
import math
import re
import sys
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError
from s2s.cli import guard
from s2s.data import numbered_lines
from s2s.io import write_lines
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.treebank import Cleaner, check_overwriting, read_treebank
from s2s_parsing.treebank.brackets import BLANK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

LEAF = re.compile(rf"\([^{BLANK}()]+[{BLANK}]+([^{BLANK}()]+)[{BLANK}]*\)")
"""A leaf of a tree, with its word, in a tree that s2s-generate wrote"""


@dataclass(frozen=True)
class Parse:
    """A sentence with its tree and the parser's score."""

    sentence: str
    """The words of the tree, separated by one blank: with raw=true, the input itself is not yet words"""
    tree: str
    score: float


def read_parses(path: Path) -> Iterator[Parse]:
    """The best parse of every sentence of a file, which is the first of its n-best list."""
    before = None
    for number, line in numbered_lines(path, "error"):
        place, columns = f"{path}:{number}", str(line).split("\t")
        if not line or columns[0] == before:
            continue
        before = columns[0]
        try:
            _, *_, tree, score = columns
            yield Parse(" ".join(LEAF.findall(tree)), tree, float(score))
        except ValueError:
            raise DataError(
                f"{place}: expected a sentence, a tree and a score, as s2s-generate format=tsv writes them"
            ) from None


def confident(
    parses: Iterable[Parse], least: float, longest: int, without: Collection[str], dropped: Counter[str]
) -> Iterator[Parse]:
    """Parses of at least the score `least` and at most `longest` words, each sentence once, without those of `without`.

    `dropped` counts the others by the first reason that applies.
    """
    seen = set[int]()
    for parse in parses:
        key = hash(parse.sentence)
        if not parse.sentence or parse.score == -math.inf:
            dropped["without a parse"] += 1
        elif parse.score < least:
            dropped["below the score"] += 1
        elif parse.sentence.count(" ") >= longest:
            dropped[f"longer than {longest} words"] += 1
        elif parse.sentence in without:
            dropped["held out"] += 1
        elif key in seen:
            dropped["again the same sentence"] += 1
        else:
            seen.add(key)
            yield parse


def least_of(files: Sequence[Path], share: float) -> float:
    """The lowest score among the best `share` of all parses."""
    scores = array("d", (p.score for path in files for p in read_parses(path) if p.score > -math.inf))
    n_kept = math.ceil(share * len(scores))
    return sorted(scores)[-n_kept] if n_kept else math.inf


def sentences_of(files: Iterable[Path]) -> set[str]:
    """The sentences of treebanks."""
    trees = read_treebank(list(files), Cleaner(Counter()), "error")
    return {" ".join(leaf.word for leaf in leaves(tree)) for tree in trees if isinstance(tree, Tree)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m s2s_parsing.silver", description="Select a parser's outputs for self-training"
    )
    parser.add_argument("parsed", type=Path, nargs="+", help="what s2s-generate format=tsv wrote")
    parser.add_argument("-o", "--output", type=Path, required=True, help="treebank to write; .gz is compressed")
    parser.add_argument("--keep", type=float, help="share of the parses to keep, those with the best scores (0.5)")
    parser.add_argument("--least", type=float, help="or the least score to keep")
    parser.add_argument("--longest", type=int, default=100, help="most words of a sentence (100)")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="treebanks whose sentences are left out")
    options = parser.parse_args(arguments)
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.keep is not None and options.least is not None:
        raise ConfigError("--keep and --least: give one of them")
    share = 0.5 if options.keep is None else options.keep
    if not 0 < share <= 1:
        raise ConfigError(f"--keep {share}: give a share above 0 and at most 1")
    check_overwriting(options.output, (*options.parsed, *options.without))
    least = least_of(options.parsed, share) if options.least is None else options.least
    dropped = Counter[str]()
    parses = (parse for path in options.parsed for parse in read_parses(path))
    kept = confident(parses, least, options.longest, sentences_of(options.without), dropped)
    n_kept = write_lines(options.output, (parse.tree for parse in kept))
    reasons = "".join(f", {n:,} {why}" for why, n in sorted(dropped.items()))
    print(f"{options.output}: {n_kept:,} trees of a score of at least {least:.4f}{reasons}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
