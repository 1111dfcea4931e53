"""The synthetic corpus: English and its tree, randomness, splits."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache

import pytest
from nltk import Tree, TreebankWordTokenizer

from harness.folders import ROOT
from s2s_synthetic_corpus.__main__ import main
from s2s_synthetic_corpus.generate import SPLITS, Parallel, pair, pairs, split_of
from s2s_synthetic_corpus.lexicon import ALL_VERBS, NOUNS
from s2s_synthetic_corpus.rng import HashRng

PHRASES = {
    "S",
    "SBAR",
    "SBARQ",
    "SQ",
    "NP",
    "VP",
    "PP",
    "ADJP",
    "ADVP",
    "WHNP",
    "WHADVP",
    "WHADJP",
    "WHPP",
    "PRT",
    "INTJ",
}
TAGS = {
    "DT",
    "NN",
    "NNS",
    "NNP",
    "NNPS",
    "JJ",
    "JJR",
    "RB",
    "RBR",
    "RP",
    "CC",
    "CD",
    "IN",
    "TO",
    "EX",
    "UH",
    "POS",
    "MD",
}
TAGS |= {"VB", "VBP", "VBZ", "VBD", "VBN", "VBG", "PRP", "PRP$", "WP", "WP$", "WDT", "WRB", ".", ","}


@cache
def sample() -> tuple[Parallel, ...]:
    return tuple(pairs(3, 3_000))


@cache
def trees() -> tuple[Tree, ...]:
    return tuple(Tree.fromstring(made.tree) for made in sample())


def test_a_pair_is_found_again_by_its_place_alone() -> None:
    assert list(pairs(5, 40)) == [pair(5, index) for index in range(40)]
    assert list(pairs(5, 10, start=30)) == list(pairs(5, 40))[30:]
    assert pair(5, 10**12) == pair(5, 10**12)


def test_seeds_give_other_corpora() -> None:
    assert not {made.en for made in pairs(1, 50)} & {made.en for made in pairs(2, 50) if len(made.en) > 30}


@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_another_process_makes_the_same_pairs(hash_seed: str) -> None:
    code = "from s2s_synthetic_corpus.generate import pairs; print([tuple(p) for p in pairs(8, 200)])"
    env = {"PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str([tuple(made) for made in pairs(8, 200)])


def test_every_python_makes_the_same_pairs() -> None:
    """The sum was printed by this line on Python 3.11.2, 3.12.1 and 3.13.0; a changed grammar changes it."""
    sum_ = hashlib.sha256(repr([tuple(made) for made in pairs(1, 5_000)]).encode()).hexdigest()
    assert sum_.startswith("75065884e5edc237")


def test_draws_are_the_digits_of_a_hash() -> None:
    """Against a plain loop; blake2b and whole numbers are the same on every Python and machine."""
    number = int.from_bytes(hashlib.blake2b(b"4:9:0").digest(), "big")
    rng = HashRng(4, 9)
    for n in (2, 100, 7, 36):
        assert rng.below(n) == number % n
        number //= n


def test_draws_never_run_dry_and_are_even() -> None:
    rng = HashRng(1, 1)
    counts = [0] * 5
    for _ in range(5_000):
        counts[rng.below(5)] += 1
    assert all(880 < count < 1120 for count in counts)  # 1000 expected; four standard deviations are 113


def test_the_leaves_of_the_tree_are_the_treebank_tokens_of_the_english() -> None:
    tokenizer = TreebankWordTokenizer()
    for made, tree in zip(sample(), trees(), strict=True):
        assert tree.leaves() == tokenizer.tokenize(made.en)


def test_trees_are_one_line_of_known_labels() -> None:
    for made, tree in zip(sample(), trees(), strict=True):
        assert tree.label() in {"S", "SQ", "SBARQ"}
        assert tree.pformat(margin=10**6) == made.tree
        for node in tree.subtrees():
            assert node.label() in (TAGS if isinstance(node[0], str) else PHRASES), made.tree


def test_trees_are_not_flat() -> None:
    depths = [tree.height() for tree in trees()]
    assert max(depths) >= 14
    assert sum(depths) / len(depths) > 6


@pytest.mark.parametrize("side", ["en", "de"])
def test_text_is_written_as_people_write(side: str) -> None:
    for made in sample():
        text = getattr(made, side)
        assert re.fullmatch(r"[\w'.,-]+( [\w'.,-]+)*[.?!]", text), text
        assert text[0] == text[0].upper()
        assert not re.search(r"[,.?!][,.?!]| [,.?!]|\d[a-z]", text), text
        assert made.en[-1] == made.de[-1]


def test_a_becomes_an_before_vowels_only() -> None:
    for made in sample():
        for article, following in re.findall(r"\b([Aa]n?) (\w)", made.en):
            assert (article.lower() == "an") == (following in "aeiou"), made.en


SINGULAR_PRONOUNS, PLURAL_PRONOUNS = {"he", "she", "it", "who"}, {"i", "you", "we", "they"}


def third_singular(phrase: Tree) -> bool | None:
    """Whether a noun phrase is he, she, it; None: the relative that agrees with something outside."""
    if any(child.label() == "CC" for child in phrase):
        return False
    if phrase[0].label() == "NP" and not any(child.label().startswith("NN") for child in phrase):
        return third_singular(phrase[0])
    head = phrase[-1]
    word = head[0].lower() if isinstance(head[0], str) else ""
    if head.label() == "EX":
        return None
    return word in SINGULAR_PRONOUNS if head.label() == "PRP" else head.label() in {"NN", "NNP"}


def finite(phrase: Tree) -> Tree | None:
    """The finite verb of a verb phrase, the first of coordinated ones."""
    first = phrase[0]
    return finite(first) if first.label() == "VP" else first


def test_english_verbs_agree_with_their_subjects() -> None:
    checked = 0
    for tree in trees():
        for clause in tree.subtrees(lambda node: node.label() in {"S", "SQ"}):
            labels = [child.label() for child in clause]
            subjects = [child for child, after in zip(clause, labels[1:], strict=False) if child.label() == "NP"]
            verbs = [child for child in clause if child.label() in {"VP", "VBZ", "VBP"}]
            if not subjects or not verbs:
                continue
            subject = subjects[-1] if clause.label() == "S" else subjects[0]
            verb = finite(verbs[0]) if verbs[0].label() == "VP" else verbs[0]
            expected = third_singular(subject)
            if verb is None or verb.label() not in {"VBZ", "VBP"} or expected is None:
                continue
            assert (verb.label() == "VBZ") == expected, tree.pformat()
            checked += 1
    assert checked > 1_000


def test_one_english_sentence_has_one_german() -> None:
    """At most one English sentence in a thousand may have two."""
    german: dict[str, set[str]] = defaultdict(set)
    for made in pairs(1, 12_000):
        german[made.en].add(made.de)
    assert sum(len(found) > 1 for found in german.values()) < len(german) / 1000


def test_the_documented_pairs_are_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["10"])
    text = (ROOT / "docs/synthetic_corpus.md").read_text(encoding="utf-8")
    assert f"```\n{capsys.readouterr().out.strip()}\n```" in text


@pytest.mark.slow
def test_one_of_fifty_thousand_english_sentences_has_one_german() -> None:
    german: dict[str, set[str]] = defaultdict(set)
    for made in pairs(2, 50_000):
        german[made.en].add(made.de)
    assert sum(len(found) > 1 for found in german.values()) < len(german) / 1000
    assert len(german) > 47_000


def test_a_split_is_what_its_sentences_say() -> None:
    for split in SPLITS:
        assert {split_of(made.en) for made in pairs(1, 60, split)} == {split}


def test_splits_are_the_whole_corpus_and_share_nothing() -> None:
    whole = list(pairs(1, 2_000))
    parts = {split: [made for made in whole if split_of(made.en) == split] for split in SPLITS}
    for split, expected in parts.items():
        assert list(pairs(1, len(expected), split)) == expected
    shares = [len(parts[split]) / len(whole) for split in SPLITS]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    english = [{made.en for made in parts[split]} for split in SPLITS]
    assert sum(map(len, english)) == len(set().union(*english))


def test_sentences_are_of_natural_length() -> None:
    lengths = [len(tree.leaves()) for tree in trees()]
    assert min(lengths) >= 3
    assert 20 <= max(lengths) <= 25
    assert 9 <= sum(lengths) / len(lengths) <= 11


def test_the_vocabulary_is_that_of_a_small_world() -> None:
    assert 150 <= len(NOUNS) + len({verb.english[2] for _, verb in ALL_VERBS}) <= 250
    words = {word.strip(".,?!") for made in pairs(4, 6_000) for word in made.de.split()}
    assert 1_500 < len(words) < 6_000


def test_the_phenomena_are_all_there() -> None:
    english = [made.tree for made in sample()]
    for label in ("SBAR", "SBARQ", "SQ ", "MD", "POS", "WDT", "CD", "JJR", "VBG", "PRT", "NNPS", "EX"):
        assert sum(f"({label}" in tree for tree in english) >= 3, label
    text = [f" {made.de} " for made in sample()]
    for word in (
        "dass",
        "weil",
        "obwohl",
        "wenn",
        "als",
        "bevor",
        "ob",
        "um",
        "zu",
        "wird",
        "wurde",
        "worden",
    ):
        assert sum(f" {word} " in f" {re.sub('[,.?!]', '', line.lower())} " for line in text) >= 3, word
    for word in ("kein", "nicht", "zum", "zur", "ins", "im", "vom", "sich", "dessen", "deren"):
        assert any(f" {word}" in line.lower() for line in text), word
