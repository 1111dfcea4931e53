"""`python -m s2s_parsing.treebank [--words] PATH …`: clean trees, one a line, or only their sentences."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from s2s.cli import guard
from s2s_parsing.tree import leaves
from s2s_parsing.treebank import cleaned_trees, treebank_files


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m s2s_parsing.treebank",
        description="Trees of files or folders as a parser learns them, without traces and function tags, one a line",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a treebank's file or folder")
    parser.add_argument("--words", action="store_true", help="their sentences instead, words separated by blanks")
    parser.add_argument("--split", choices=["train", "valid", "test"], help="of a folder of the Wall Street Journal")
    options = parser.parse_args()
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    files = [file for path in options.paths for file in treebank_files(path, options.split)]
    for tree in cleaned_trees(files):
        sys.stdout.write(" ".join(leaf.word for leaf in leaves(tree)) if options.words else str(tree))
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
