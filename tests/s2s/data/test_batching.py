"""The order of the data against lists that are really shuffled, counted and padded."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s2s.data.batching import POOL, VARIED_POOL, Batches, Permutation, _by_length, _cut, _cut_packed, validation_batches


class Lists:
    """A corpus in memory, whose pair i begins with the symbol i on both sides."""

    def __init__(self, n: int, longest: int = 30, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        self.sizes = draw.integers(1, longest + 1, size=(n, 2))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, row: int) -> tuple[list[int], list[int]]:
        src, tgt = self.sizes[row]
        return [row] * src, [row] * tgt

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.sizes[rows, 0], self.sizes[rows, 1]


@given(st.integers(1, 3000), st.integers(0, 2**63), st.integers(0, 2**40))
@settings(max_examples=60)
def test_a_permutation_is_a_bijection(n: int, seed: int, epoch: int) -> None:
    places = Permutation(n, seed, epoch)(np.arange(n))
    assert np.array_equal(np.sort(places), np.arange(n))


def test_a_permutation_permutes_the_next_power_of_four() -> None:
    """Fewer would not do, and more are permuted in vain: on average less than four results for one inside."""
    for n in range(301):
        half = int(Permutation(n, 1).half)
        assert half == next(h for h in range(1, 10) if 4**h >= n)


def test_a_permutation_can_be_read_in_pieces() -> None:
    order = Permutation(10_007, 5)
    pieces = [order(np.arange(begin, min(begin + 999, 10_007))) for begin in range(0, 10_007, 999)]
    assert np.array_equal(np.concatenate(pieces), order(np.arange(10_007)))


def test_permutations_put_every_item_everywhere_equally_often() -> None:
    """A chi-square test of where 20 items land over 2,000 keys: 361 degrees of freedom, 99.99% below 470."""
    places = np.stack([Permutation(20, key)(np.arange(20)) for key in range(2000)])
    counts = np.stack([np.bincount(places[:, i], minlength=20) for i in range(20)])
    assert ((counts - 100) ** 2 / 100).sum() < 470


def test_neighbours_are_torn_apart() -> None:
    places = Permutation(100_000, 1)(np.arange(100_000))
    correlation = np.corrcoef(places[:-1], places[1:])[0, 1]
    assert abs(correlation) < 0.02
    assert abs(np.corrcoef(np.arange(100_000), places)[0, 1]) < 0.02


def test_other_seeds_and_epochs_give_other_orders() -> None:
    batches = Batches([(Lists(500), 1.0)], tokens=200, seed=1)
    other = Batches([(Lists(500), 1.0)], tokens=200, seed=2)
    orders = [tuple(np.concatenate(list(b.epoch(e)))) for b in (batches, other) for e in range(3)]
    assert len(set(orders)) == 6


@pytest.mark.parametrize("pool", [7, 100, 10_000])
def test_every_pair_comes_once_in_an_epoch(pool: int) -> None:
    batches = Batches([(Lists(300), 1.0), (Lists(200, seed=1), 1.0)], tokens=150, seed=3, pool=pool)
    for epoch in range(3):
        assert sorted(np.concatenate(list(batches.epoch(epoch)))) == list(range(500))


@given(st.integers(1, 80), st.integers(1, 60), st.integers(1, 40), st.integers(0, 5))
@settings(max_examples=80)
def test_padded_batches_keep_the_budget_on_both_sides(n: int, tokens: int, longest: int, seed: int) -> None:
    corpus = Lists(n, longest, seed)
    batches = list(Batches([(corpus, 1.0)], tokens, seed).epoch(0))
    assert sorted(np.concatenate(batches)) == list(range(n))
    for rows in batches:
        widest = (corpus.sizes[rows] + 1).max()
        assert len(rows) == 1 or widest * len(rows) <= tokens


def test_a_batch_is_as_large_as_the_budget_allows() -> None:
    """The next pair in the order of lengths would have broken it: checked against a loop over single pairs."""
    corpus = Lists(400)
    src, tgt = (lambda i: corpus.sizes[i, 0] + 1), (lambda i: corpus.sizes[i, 1] + 1)
    found = sorted(len(b) for b in Batches([(corpus, 1.0)], tokens=120, seed=0).epoch(0))
    order = sorted(range(400), key=lambda i: (tgt(i), src(i) if tgt(i) % 2 == 0 else -src(i)))
    sizes, width, count = [], 0, 0
    for row in order:
        wider = max(width, *(corpus.sizes[row] + 1))
        if count and wider * (count + 1) > 120:
            sizes.append(count)
            wider, count = max(corpus.sizes[row] + 1), 0
        width, count = wider, count + 1
    assert found == sorted([*sizes, count])


@pytest.mark.parametrize("start", [0, 1, 5, 37, 10**6])
def test_an_epoch_continues_at_any_batch(start: int) -> None:
    batches = Batches([(Lists(700), 1.0)], tokens=100, seed=9, pool=64)
    whole = [tuple(b) for b in batches.epoch(4)]
    assert [tuple(b) for b in batches.epoch(4, start=start)] == whole[start:]


@pytest.mark.parametrize("weight", [0.3, 0.5, 1.0, 1.7, 2.0, 3.0])
def test_weights_say_how_often_a_pair_is_seen(weight: float) -> None:
    batches = Batches([(Lists(50), weight), (Lists(30, seed=2), 1.0)], tokens=100, seed=1)
    seen: Counter[int] = Counter()
    for epoch in range(10):
        seen.update(int(row) for b in batches.epoch(epoch) for row in b)
    assert {seen[row] for row in range(50)} <= {int(10 * weight), -int(-10 * weight // 1)}
    assert sum(seen[row] for row in range(50)) == round(10 * weight * 50)
    assert {seen[row] for row in range(50, 80)} == {10}


def test_pairs_come_from_the_corpus_that_owns_the_row() -> None:
    one, two = Lists(5), Lists(5, seed=1)
    pairs = Batches([(one, 1.0), (two, 1.0)], tokens=100, seed=1).pairs(np.array([4, 5, 9]))
    assert pairs == [one[4], two[0], two[4]]


def test_batches_onwards_are_those_of_the_epochs() -> None:
    batches = Batches([(Lists(90), 1.0)], tokens=100, seed=3)
    rows = [(epoch, number, found) for epoch in (0, 1) for number, found in enumerate(batches.epoch(epoch))]
    for (epoch, number, batch), expected in zip(batches.iterate_from(0, 0), rows, strict=False):
        assert (epoch, number) == expected[:2]
        assert list(batch) == batches.pairs(expected[2])
        assert [(len(src) + 1, len(tgt) + 1) for src, tgt in batch] == [*zip(*batch.lengths, strict=True)]


@pytest.mark.parametrize(("tokens", "sizes"), [(10, [2, 2]), (9, [1, 1, 1, 1]), (20, [4])])
def test_the_end_of_a_sentence_counts_in_batches_of_validation(tokens: int, sizes: list[int]) -> None:
    corpus = Lists(4)
    corpus.sizes[:] = 4
    assert [len(batch) for batch in validation_batches(corpus, tokens)] == sizes


def test_pairs_that_are_encoded_anew_are_sorted_in_smaller_pools() -> None:
    """Encoding takes longer than sorting."""
    plain, varied, given = (
        Batches([(Lists(1), 1.0)], 100, 1, **options).pool
        for options in ({}, {"vary": lengthened}, {"vary": lengthened, "pool": 7})
    )
    assert given < varied < plain == POOL


def test_validation_takes_every_pair_once_shortest_first() -> None:
    corpus = Lists(100)
    batches = list(validation_batches(corpus, tokens=90))
    assert sorted(pair[0][0] for batch in batches for pair in batch) == list(range(100))
    widths = [max(len(t) for _, t in batch) for batch in batches]
    assert widths == sorted(widths)


def test_a_billion_pairs_are_drawn_without_a_list() -> None:
    class Endless(Lists):
        def __len__(self) -> int:
            return 10**9

        def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return rows % 30 + 1, rows % 31 + 1

    batches = Batches([(Endless(1), 1.0)], tokens=1000, seed=1, pool=1000)
    some = np.concatenate(list(islice(batches.epoch(0), 50)))
    assert len(set(some.tolist())) == len(some)
    assert some.max() > 9 * 10**8
    assert some.min() < 10**8


def test_a_fraction_is_exact_in_the_long_run() -> None:
    """0.29 * 100 is 28.999… in floats: after 100 epochs a pair would be missing."""
    batches = Batches([(Lists(100), 0.29)], tokens=100, seed=1)
    seen = Counter(int(row) for epoch in range(100) for b in batches.epoch(epoch) for row in b)
    assert set(seen.values()) == {29}


def test_an_empty_corpus_among_others_gives_nothing() -> None:
    batches = Batches([(Lists(0), 1.0), (Lists(20), 1.0), (Lists(0), 0.5)], tokens=50, seed=1)
    assert sorted(np.concatenate(list(batches.epoch(0)))) == list(range(20))


def test_going_up_and_down_pads_less_than_always_up() -> None:
    """Against the order by target, then source length, cut by the same rule."""
    corpus = Lists(20_000, longest=60)
    src, tgt = (corpus.sizes + 1).T

    def fill(rows: np.ndarray) -> float:
        batches = np.split(rows, _cut(src[rows], tgt[rows], 2000))
        return (src + tgt).sum() / sum(len(b) * (src[b].max() + tgt[b].max()) for b in batches)

    assert fill(_by_length(src, tgt)) > fill(np.lexsort((src, tgt))) + 0.01


def test_the_order_is_what_it_was() -> None:
    """A change of the order would break the resumption of every run that is under way."""
    batches = Batches([(Lists(40), 1.0), (Lists(10, seed=1), 0.5)], tokens=80, seed=7, pool=16)
    told = hashlib.sha256(repr([b.tolist() for e in range(3) for b in batches.epoch(e)]).encode()).hexdigest()
    assert told[:16] == "b832f368989deb67"  # as it came out when it was settled


@given(st.integers(1, 400), st.integers(20, 300), st.integers(1, 40))
@settings(max_examples=60)
def test_full_batches_take_pairs_as_they_come_and_no_more_than_fit(n: int, tokens: int, max_pairs: int) -> None:
    """Against a loop that adds pair after pair until one does not fit."""
    src, tgt = Lists(n).sizes.T + 1
    expected, sums, count = [], np.zeros(2, dtype=int), 0
    for i, pair in enumerate(zip(src, tgt, strict=True)):
        if count and ((sums + pair > tokens).any() or count == max_pairs):
            expected.append(i)
            sums, count = np.zeros(2, dtype=int), 0
        sums, count = sums + pair, count + 1
    assert _cut_packed(src, tgt, tokens, max_pairs) == expected


@pytest.mark.parametrize(("tokens", "bounds"), [(10, [2]), (9, [1, 2])])
@pytest.mark.parametrize("is_src", [True, False], ids=["source", "target"])
def test_a_full_batch_has_exactly_the_budget_on_the_longer_side(tokens: int, bounds: list[int], is_src: bool) -> None:
    long, short = np.array([5, 5, 10]), np.array([1, 1, 1])
    assert _cut_packed(*((long, short) if is_src else (short, long)), tokens, max_pairs=9) == bounds


def test_full_batches_are_fuller_than_padded_ones_and_hold_all_lengths() -> None:
    corpus = Lists(20_000)
    full = list(Batches([(corpus, 1.0)], 2000, seed=1, max_pairs=500).epoch(0))
    assert sorted(np.concatenate(full).tolist()) == list(range(20_000))
    lengths = np.concatenate([corpus.sizes[rows].sum(axis=0) + len(rows) for rows in full[:-1]])
    assert lengths.mean() > 0.95 * 2000
    assert np.mean([corpus.sizes[rows, 1].std() for rows in full]) > 0.9 * corpus.sizes[:, 1].std()


def lengthened(pair: tuple[list[int], list[int]], seed: int) -> tuple[list[int], list[int]]:
    """The pair with up to nine tokens more on each side, by its seed."""
    src, tgt = pair
    return src + [seed % 1000] * (seed % 10), tgt + [seed % 1000] * (seed // 10 % 10)


@pytest.mark.parametrize("max_pairs", [None, 20], ids=["padded", "packed"])
def test_pairs_that_are_encoded_anew_keep_the_budget_and_come_once(max_pairs: int | None) -> None:
    corpus = Lists(300)
    batches = Batches([(corpus, 1.0)], 150, seed=3, pool=70, max_pairs=max_pairs, vary=lengthened)
    n_batches = len(list(batches.epoch(0)))
    for epoch, number, batch in islice(batches.iterate_from(0, 0), 3 * n_batches):
        batch.load()
        src, tgt = (np.array([len(pair[side]) + 1 for pair in batch]) for side in (0, 1))
        assert np.array_equal(batch.lengths[0], src)
        assert np.array_equal(batch.lengths[1], tgt)
        n_tokens = [(n.sum() if max_pairs else len(n) * n.max()) for n in (src, tgt)]
        assert max(n_tokens) <= 150 or len(batch) == 1
        if epoch == 0:
            assert number < n_batches
    assert sorted(np.concatenate(list(batches.epoch(1)))) == list(range(300))


def test_a_pair_is_encoded_by_seed_epoch_and_row_alone() -> None:
    """Whatever the pool, the budget, the weight, and the batch with which reading begins."""

    def seen(epoch: int, start: int = 0, **options: Any) -> dict[int, tuple[list[int], list[int]]]:
        given = {"weight": 1.0, "tokens": 150, "seed": 3, "pool": 70, **options}
        batches = Batches([(Lists(200), given.pop("weight"))], vary=lengthened, **given)
        found: dict[int, tuple[list[int], list[int]]] = {}
        for at, _, batch in batches.iterate_from(epoch, start):
            if at > epoch:
                return found
            found |= {int(row): pair for row, pair in zip(batch.rows, list(batch), strict=True)}
        raise AssertionError("there is always another epoch")

    first = seen(2)
    assert len(first) == 200
    assert first == seen(2, pool=1000, tokens=400) == seen(2, weight=2.0)
    rest = seen(2, start=9)
    assert 0 < len(rest) < 200
    assert all(first[row] == pair for row, pair in rest.items())
    for other in (seen(3), seen(2, seed=4)):
        assert sum(first[row] != other[row] for row in first) > 180


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_of_a_share_of_the_pairs_those_with_the_smallest_seeds_are_encoded_anew(share: float) -> None:
    """Against all of them encoded anew, with those left out that a share of the seeds does not reach."""

    def only_some(pair: tuple[list[int], list[int]], seed: int) -> tuple[list[int], list[int]]:
        return lengthened(pair, seed) if seed < share * 2**64 else pair

    def batches(**options: Any) -> list[list[tuple[list[int], list[int]]]]:
        whole = Batches([(Lists(150), 1.0), (Lists(50), 2.0)], 150, seed=3, pool=70, **options)
        n_batches = len(list(whole.epoch(1)))
        return [list(batch) for _, _, batch in islice(whole.iterate_from(1, 0), n_batches)]

    assert batches(vary=lengthened, share=share) == batches(vary=only_some)
    assert (batches(vary=lengthened, share=share) == batches()) is (share == 0)


def test_few_pairs_that_are_encoded_anew_leave_the_pool_as_it_is() -> None:
    pools = [Batches([(Lists(9), 1.0)], 9, 1, vary=lengthened, share=share).pool for share in (0.03, 0.125, 0.2, 1.0)]
    assert pools == [POOL, POOL, VARIED_POOL, VARIED_POOL]
