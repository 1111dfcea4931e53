"""Which lines are raw text for a parser, and which are a treebank's words."""

from __future__ import annotations

import pytest
from sacremoses import MosesDetokenizer

from harness.parsing_trees import TREEBANKS
from s2s_parsing.ptb_tokenizer import looks_raw, tokenize
from s2s_parsing.tree import leaves
from s2s_parsing.treebank import cleaned_trees

RAW = [
    "She works.", "Well, it works", '"It works', "It (mostly) works (here too", "I can't", "It's old", "Really?",
    "They're in", "“So”",
    "He said: no!", "Mr. Smith left Paris; we stayed", "Er kam, sah und siegte.",
]  # fmt: skip
WORDS = [
    "", "   ", "She works .", "Well , it works", "`` It works '' , he said .", "I ca n't", "It 's old",
    "the dogs ' bowls",
    "-LRB- here -RRB-", "Acme Inc.", "the U.S.", "J. Smith Jr. left", "3.5 %", "1,000 CD4(+) cells",
    "... and so on ...",
    "et al.", "a:b c/d", "He came -- and went", "Mr. Smith",
]  # fmt: skip


@pytest.mark.parametrize("line", RAW)
def test_punctuation_at_a_word_shows_raw_text(line: str) -> None:
    assert looks_raw(line)
    assert not looks_raw(" ".join(tokenize(line))), "words are not tokenised again"


@pytest.mark.parametrize("line", WORDS)
def test_words_of_a_treebank_are_not_raw(line: str) -> None:
    assert not looks_raw(line)


@pytest.mark.parametrize(
    "path", [path for path in TREEBANKS if "test.clean" in path.name], ids=lambda path: path.parent.name
)
def test_sentences_of_treebanks_are_known_from_their_text(path: object) -> None:
    """Second truth: the words of the trees, and the same put together as people write them."""
    signs = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")"}
    words = [[leaf.word for leaf in leaves(tree)] for _, tree in zip(range(300), cleaned_trees([path]), strict=False)]
    detokenizer = MosesDetokenizer("en")
    texts = [detokenizer.detokenize([signs.get(word, word) for word in some]) for some in words]
    assert sum(looks_raw(" ".join(some)) for some in words) <= 0.005 * len(words)
    assert sum(map(looks_raw, texts)) > 0.85 * len(texts)
