"""Trees for tests: of hypothesis's making, and those of the open treebanks where they lie beside the repository."""

from __future__ import annotations

import pytest
from folders import DATA
from hypothesis import strategies as st

from s2s_parsing.tree import Tree, Word

TREEBANKS = sorted(path for path in (DATA / "treebanks").glob("*/*.mrg*"))

TAGS = ("NN", "DT", "-LRB-", ".", "``", "PRP$", "XX")
LABELS = ("S", "NP", "VP", "SBAR", "NP-SBJ-1", "X", "WHNP")

words = st.builds(Word, st.sampled_from(TAGS), st.text("abc'.:/\\*-=|$#\u00a0ü", min_size=1, max_size=4))


def brackets(children: st.SearchStrategy[Tree | Word]) -> st.SearchStrategy[Tree]:
    return st.builds(Tree, st.sampled_from(LABELS), st.lists(children, min_size=1, max_size=4).map(tuple))


constituents = st.recursive(words, brackets, max_leaves=20)
trees = st.lists(constituents, min_size=1, max_size=3).map(lambda children: Tree("TOP", tuple(children)))
"""Trees under TOP, with words and brackets side by side, chains, and several brackets under TOP."""


def each_treebank() -> pytest.MarkDecorator:
    """Run a test for every file of the open treebanks, large ones as slow, or skip it with the reason."""
    if not TREEBANKS:
        return pytest.mark.skip(reason=f"no treebanks in {DATA / 'treebanks'}")
    large = [pytest.mark.slow], []
    files = [pytest.param(p, id=f"{p.parent.name}/{p.name}", marks=large[p.suffix != ".gz"]) for p in TREEBANKS]
    return pytest.mark.parametrize("path", files)
