"""The fingerprint of a corpus against counting everything at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.task import Dependencies, Example, Rejected
from s2s_plan import fingerprint
from s2s_plan.counting import DistinctCounter, count_words, hashed
from s2s_plan.fingerprint import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Lines:
    """A task as far as a fingerprint asks: pairs per split."""

    def __init__(self, weights: dict[str, float] | None = None, **splits: list[Any]) -> None:
        self.splits, self.weights = splits, weights or {"train": 1.0}

    def dependencies(self) -> Dependencies:
        return Dependencies(files=[Path("pairs.tsv")])

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        if split == "train":
            return list(self.weights.items())
        return [(split, 1.0)] if split in self.splits else []

    def examples(self, split: str, corpus: str) -> Iterator[Any]:
        return iter(self.splits[corpus])


def sentence(rng: random.Random, most: int = 30) -> str:
    return " ".join(str(rng.randrange(900)) for _ in range(rng.randint(1, most)))


def take(weights: dict[str, float] | None = None, **splits: list[Any]) -> Fingerprint:
    return fingerprint.take(Lines(weights, **splits))  # type: ignore[arg-type]


def test_it_counts_what_counting_everything_counts() -> None:
    rng = random.Random(1)
    pairs = [Example(sentence(rng), sentence(rng, 50)) for _ in range(3000)]
    pairs += pairs[:600]
    found = take(train=[*pairs, Rejected("empty")])
    assert (found.n_pairs, found.n_rejected) == (3600, 1)
    assert found.duplicates == pytest.approx(600 / 3600, abs=1e-4)
    for side, name in ((found.src, "src"), (found.tgt, "tgt")):
        lines = [getattr(pair, name) for pair in pairs]
        lengths = sorted(len(line.split()) for line in lines)
        assert side.n_words == sum(lengths)
        assert side.n_characters == sum(map(len, lines))
        assert side.n_types == len({word for line in lines for word in line.split()})
        assert side.lengths == tuple(lengths[max(int(np.ceil(q * len(lengths))), 1) - 1] for q in fingerprint.QUANTILES)


def test_an_epoch_has_the_pairs_of_a_corpus_by_its_weight() -> None:
    corpora = {"own": [Example("x", "a b c")] * 4, "back": [Example("x", "a")] * 20}
    found = take({"own": 2.0, "back": 0.5}, **corpora)
    assert (found.n_pairs, found.tgt.n_words) == (24, 3 * 4 + 20)
    assert (found.epoch_pairs, found.epoch_words) == (2 * 4 + 0.5 * 20, 2 * 3 * 4 + 0.5 * 20)
    assert Fingerprint.of_record(found.record()) == found
    before = {name: value for name, value in found.record().items() if not name.startswith("weighted")}
    assert Fingerprint.of_record(before).epoch_pairs == 24, "a plan of an earlier version"


@pytest.mark.parametrize(
    ("line", "n_words"),
    [
        ("the cat sat on the mat", 6),
        ("die Katze saß, und über ihr", 6),
        ("猫がマットの上に座った。", 6 + 1),
        ("猫 が マット の 上 に 座った 。", 6 + 1),
        ("他在 IBM 工作 10 年", 1 + 1 + 1 + 1 + 1),
        ("แมวนั่งบนเสื่อ", 3),
        ("고양이가 매트 위에 앉았다", 4),
        ("", 0),
    ],
    ids=["English", "German", "Japanese", "Japanese in words", "Chinese and Latin", "Thai", "Korean", "nothing"],
)
def test_words_are_estimated_where_no_spaces_divide_them(line: str, n_words: int) -> None:
    assert count_words(line) == n_words
    assert take(train=[Example("x", line)]).tgt.n_words == n_words


def test_it_does_not_depend_on_the_size_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    pairs = [Example(sentence(rng), sentence(rng)) for _ in range(500)]
    whole = take(train=pairs, valid=pairs[:50])
    monkeypatch.setattr(fingerprint, "BLOCK", 7)
    assert take(train=pairs, valid=pairs[:50]) == whole


def test_it_finds_held_out_sources_in_the_training_corpus() -> None:
    train = [Example(f"s {n}", f"t {n}") for n in range(100)]
    valid = [Example(f"s {n}", "another") for n in range(90, 110)]
    assert take(train=train, valid=valid).overlap == {"valid": 0.5}


def test_of_nothing_it_is_empty() -> None:
    found = take(train=[])
    assert (found.n_pairs, found.duplicates, found.tgt.lengths) == (0, 0.0, (0, 0, 0, 0))


def test_its_record_gives_it_back() -> None:
    found = take(train=[Example("a b", "c")], test=[Example("a b", "x")])
    assert Fingerprint.of_record(found.record()) == found
    assert "1 pairs" in found.describe()


@pytest.mark.parametrize("n", [1000, 200_000])
def test_the_distinct_counter_is_exact_while_small_and_close_beyond(n: int) -> None:
    counter = DistinctCounter(most=4096)
    for _ in range(2):
        counter.add(hashed(str(i)) for i in range(n))
    assert len(counter.kept) <= 4096
    assert len(counter) == (n if n <= 4096 else pytest.approx(n, rel=0.08))
