"""Subword regularisation against enumeration of all draws, and against itself in another process."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s_sentencepiece.sampling import SubwordSampler

SYLLABLES = ["ba", "ban", "stro", "ur", "ß", "é4", "gl"]
WORDS = ["".join(random.Random(n).choices(SYLLABLES, k=1 + n % 3)) for n in range(208)]
TEXT = [" ".join(WORDS[i : i + 8]) for i in range(200)]
KINDS: Any = pytest.mark.parametrize("subwords", ["bpe", "unigram"], indirect=True)


@pytest.fixture(scope="module")
def subwords(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("subwords") / request.param
    train_subwords(TEXT, path, request.param, 45 + 256, byte_fallback=True)
    return Subwords(path)


def sampler(subwords: Subwords, alpha: float) -> SubwordSampler:
    kind: Any = subwords.path.name
    return Subwords(subwords.path, kind).sampler(alpha)


IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
from s2s_sentencepiece.subwords import Subwords
path, kind, lines = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
sample = Subwords(path, kind).sampler(0.3)
print(json.dumps([[sample(ids, seed) for ids in lines] for seed in (1, 2, 3, 4)]))
"""


@KINDS
def test_subwords_depend_on_text_and_seed_alone(subwords: Subwords) -> None:
    """Not on the process, the thread, nor on what was drawn before."""
    lines = subwords.encode(TEXT[:20])
    sample = sampler(subwords, 0.3)
    drawn = [[sample(ids, seed) for ids in lines] for seed in (1, 2, 3, 4)]
    assert len({json.dumps(of_seed) for of_seed in drawn}) == 4
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: [sampler(subwords, 0.3)(ids, 1) for ids in reversed(lines)])
        assert in_thread.result()[::-1] == drawn[0]
    arguments = [str(subwords.path), subwords.path.name, json.dumps(lines)]
    process = subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, *arguments], capture_output=True, check=True)
    assert json.loads(process.stdout) == drawn


@KINDS
def test_without_chance_they_are_the_usual_ones(subwords: Subwords) -> None:
    """No merge left out; the one segmentation that a sharp distribution has."""
    sample = sampler(subwords, 0.0 if subwords.path.name == "bpe" else 100.0)
    assert all(sample(ids, seed) == ids for seed, ids in enumerate(subwords.encode(TEXT)))


def test_without_any_merge_they_are_characters(tmp_path: Path) -> None:
    train_subwords(TEXT, tmp_path / "bpe", "bpe", 45)
    subwords = Subwords(tmp_path / "bpe")
    (ids,) = subwords.encode(TEXT[:1])
    drawn = sampler(subwords, 1.0)(ids, 1)
    assert [subwords.pieces[i] for i in drawn] == list("".join(subwords.pieces[i] for i in ids))


def unigram_probabilities(subwords: Subwords, text: str, alpha: float) -> dict[tuple[str, ...], float]:
    """Of every segmentation of a word, by its score to the power of alpha."""
    scores = dict(zip(subwords.pieces, subwords.scores, strict=True))
    found = {}
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut]
        pieces = tuple(text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)]))
        if all(piece in scores for piece in pieces):
            found[pieces] = math.exp(alpha * sum(scores[piece] for piece in pieces))
    return {pieces: p / sum(found.values()) for pieces, p in found.items()}


def bpe_probabilities(subwords: Subwords, text: str, alpha: float) -> dict[tuple[str, ...], float]:
    """Of every result of algorithm 1, over all sets of merges that each step may leave out."""
    scores = dict(zip(subwords.pieces, subwords.scores, strict=True))
    found: dict[tuple[str, ...], float] = defaultdict(float)

    def steps(state: tuple[str, ...], p: float) -> Iterator[tuple[tuple[str, ...], float]]:
        merges = [i for i in range(len(state) - 1) if state[i] + state[i + 1] in scores]
        for kept in itertools.product([False, True], repeat=len(merges)):
            chance = p * math.prod(1 - alpha if k else alpha for k in kept)
            left = [i for i, k in zip(merges, kept, strict=True) if k]
            if not left:
                yield state, chance
                continue
            best = max(left, key=lambda i: (scores[state[i] + state[i + 1]], -i))
            yield from steps((*state[:best], state[best] + state[best + 1], *state[best + 2 :]), chance)

    for state, p in steps(tuple(text), 1.0):
        found[state] += p
    return found


@KINDS
def test_draws_are_as_frequent_as_enumeration_says(subwords: Subwords) -> None:
    bpe, n = subwords.path.name == "bpe", 4000
    word, alpha, probabilities = ("strou", 0.4, bpe_probabilities) if bpe else ("strourban", 0.3, unigram_probabilities)
    (ids,) = subwords.encode([word])
    expected = probabilities(subwords, f"▁{word}", alpha)
    assert len(expected) > 5
    sample = sampler(subwords, alpha)
    found = Counter(tuple(subwords.pieces[i] for i in sample(ids, seed)) for seed in range(n))
    assert set(found) <= set(expected)
    for pieces, p in expected.items():
        assert found[pieces] == pytest.approx(n * p, abs=5 * math.sqrt(n * p) + 1), pieces


@KINDS
@given(line=st.text(), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=50)
def test_other_subwords_have_the_same_text(subwords: Subwords, line: str, seed: int) -> None:
    """Of characters that the vocabulary lacks as well, which are bytes here."""
    sample = sampler(subwords, 0.3)
    for ids in subwords.encode([line, f"ban {line}strour"]):
        assert subwords.decode(sample(ids, seed)) == subwords.decode(ids)


@KINDS
def test_what_is_unknown_stays_and_the_rest_is_drawn(subwords: Subwords) -> None:
    sample, unk = sampler(subwords, 0.5), subwords.unk
    (before,), (after,) = subwords.encode(["banstrour"]), subwords.encode(["strourbanglur"])
    drawn = [sample([*before, unk, unk, *after], seed) for seed in range(20)]
    runs = {tuple(ids[: ids.index(unk)]) for ids in drawn}
    assert all(ids[ids.index(unk) + 1] == unk and ids.count(unk) == 2 for ids in drawn)
    assert len(runs) > 1


def dropped_merges(subwords: Subwords, word: str, alpha: float, seed: int) -> list[str]:
    """Algorithm 1 on strings, which keeps nothing."""
    scores, draw, state = (
        dict(zip(subwords.pieces, subwords.scores, strict=True)),
        random.Random(seed).random,
        list(word),
    )
    while True:
        merges = [(-scores[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(state)) if a + b in scores]
        best = next((i for _, i in sorted(merges) if draw() >= alpha), None)
        if best is None:
            return state
        state[best : best + 2] = ["".join(state[best : best + 2])]


@pytest.mark.parametrize("n_states", [1, 50, 10_000])
def test_what_is_kept_of_words_changes_no_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_states: int) -> None:
    """Words of up to 60 characters, and of one character alone, where merges are equally good."""
    monkeypatch.setattr("s2s_sentencepiece.sampling.N_STATES", n_states)
    train_subwords([*TEXT, "bbbb bbb bb" * 20], tmp_path / "bpe", "bpe", 60)
    subwords = Subwords(tmp_path / "bpe", "bpe")
    words = ["bbbb", "b" * 31, "ba" * 15 + "n", "ba" * 16, "ban" * 20, *WORDS[:40]]
    for alpha in (0.1, 0.5):
        sample = subwords.sampler(alpha)
        for seed, word in enumerate(words * 10):
            (ids,) = subwords.encode([word])
            drawn = [subwords.pieces[i] for i in sample(ids, seed)]
            assert drawn == dropped_merges(subwords, f"▁{word}", alpha, seed)
        assert len(sample._states) <= n_states
        assert len(sample._words) <= n_states
        assert all(len(ids) < 32 for ids in sample._states)
