"""`python -m s2s.data.builtin 10`: the first pairs of the built-in corpus, and the trees of the English."""

from __future__ import annotations

import sys

from s2s.data.builtin import pairs


def main(arguments: list[str]) -> None:
    """Print English, German and tree; arguments: how many, and the seed."""
    n, seed = [*map(int, arguments), *(10, 1)[len(arguments) :]][:2]
    for en, de, tree in pairs(seed, n):
        sys.stdout.write(f"{en}\n{de}\n{tree}\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
