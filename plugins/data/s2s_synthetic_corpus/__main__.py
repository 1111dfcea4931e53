"""`python -m s2s_synthetic_corpus 10`: the first pairs of the synthetic corpus, and the English trees."""

from __future__ import annotations

import argparse

from s2s_synthetic_corpus.generate import SPLITS, Parallel, pairs


def main(argv: list[str] | None = None) -> None:
    """Print English, German and tree of each pair, or one of them."""
    parser = argparse.ArgumentParser(prog="python -m s2s_synthetic_corpus", description=__doc__)
    parser.add_argument("n", type=int, nargs="?", default=10, help="how many pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=SPLITS, help="only pairs of this split")
    parser.add_argument("--side", choices=Parallel._fields, help="only this, one a line")
    options = parser.parse_args(argv)
    for made in pairs(options.seed, options.n, options.split):
        if options.side:
            print(getattr(made, options.side))
            continue
        print(made.en, made.de, made.tree, sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
