"""`python -m s2s_translation.synthetic_pairs GENERATED … -o PAIRS.tsv`: training pairs from a model's translations.

Reads the output of `s2s-generate format=tsv`: a text, its translation, and the score. `--back` makes back-translations
(Sennrich et al., 2016): the translation is the source, after a tag if one is given (Caswell et al., 2019), and the
text the target. `--forward` makes the data for sequence-level distillation (Kim and Rush, 2016): the translation is the
target.
"""

from __future__ import annotations

__all__ = ["Translated", "main", "pairs_of", "read_translated"]

import argparse
import math
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s import ConfigError, DataError, Example
from s2s.cli import guard
from s2s.data import numbered_lines
from s2s.io import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Translated(NamedTuple):
    """A text, its translation by a model, and the score."""

    text: str
    translation: str
    score: float


def read_translated(path: Path) -> Iterator[Translated]:
    """Every line of a file that s2s-generate wrote with format=tsv; empty inputs are skipped."""
    for number, line in numbered_lines(path, "error"):
        columns = str(line).split("\t")
        if not columns[0].strip():
            continue
        try:
            text, *_, translation, score = columns
            yield Translated(text, translation, float(score))
        except ValueError:
            raise DataError(
                f"{path}:{number}: expected a text, its translation and a score, as s2s-generate format=tsv writes them"
            ) from None


def pairs_of(translated: Iterable[Translated], options: argparse.Namespace, dropped: Counter[str]) -> Iterator[Example]:
    """The training pairs, each once; `dropped` counts the others by the first reason that applies."""
    seen = set[int]()
    for one in translated:
        key = hash((one.text, one.translation) if options.every else one.text)
        if reason := _unusable(one, options):
            dropped[reason] += 1
        elif key in seen:
            dropped["repeated"] += 1
        else:
            seen.add(key)
            tagged = f"{options.tag} {one.translation}" if options.tag else one.translation
            yield Example(tagged, one.text) if options.back else Example(one.text, one.translation)


def _unusable(one: Translated, options: argparse.Namespace) -> str:
    """Why a translation is unusable; empty if it is usable."""
    n_text, n_translation = len(one.text.split()), len(one.translation.split())
    shorter, longer = sorted((n_text, n_translation))
    reasons = {
        "without a translation": not shorter or one.score == -math.inf,
        "below the score": one.score < options.least,
        f"longer than {options.longest} words": longer > options.longest,
        f"lengths over {options.ratio:g}": longer > options.ratio * shorter,
        "copied": one.text.split() == one.translation.split(),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    return guard(parser.prog, lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m s2s_translation.synthetic_pairs", description="Training pairs from a model's translations"
    )
    parser.add_argument("translated", type=Path, nargs="+", help="what s2s-generate format=tsv wrote")
    parser.add_argument("-o", "--output", type=Path, required=True, help="pairs to write: .tsv or .tsv.gz")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--back", action="store_true", help="back-translation: the translation is the source")
    way.add_argument("--forward", action="store_true", help="distillation: the translation is the target")
    parser.add_argument("--tag", default="", help="put before each source, such as '<BT>'; with --back")
    parser.add_argument("--every", action="store_true", help="every output of an n-best list, not the best alone")
    parser.add_argument("--least", type=float, default=-math.inf, help="least score to keep (all)")
    parser.add_argument("--longest", type=int, default=200, help="most words of either side (200)")
    parser.add_argument("--ratio", type=float, default=3.0, help="most words of one side for a word of the other (3)")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.tag and options.forward:
        raise ConfigError("--tag: tags go with --back; what is distilled has sources like any others")
    if not options.output.name.endswith((".tsv", ".tsv.gz")):
        raise ConfigError(f"{options.output}: pairs are written as .tsv or .tsv.gz; give such a name")
    dropped = Counter[str]()
    translated = (one for path in options.translated for one in read_translated(path))
    pairs = pairs_of(translated, options, dropped)
    n_pairs = write_lines(options.output, (f"{pair.src}\t{pair.tgt}" for pair in pairs))
    reasons = "".join(f", {n:,} {why}" for why, n in sorted(dropped.items()))
    print(f"{options.output}: {n_pairs:,} pairs{reasons}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
