"""Sampling against the probabilities of all outputs, which a table model makes enumerable.

Shapes: B sentences, K samples of each, V symbols.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harness.recurrent_model import Recurrent
from harness.search_calls import find, find_queued
from harness.table_model import Table
from s2s.decoding import GreedyConfig, SampleConfig, SourceSentence
from s2s.decoding.beam_search import greedy
from s2s.decoding.queue import FixedQueue
from s2s.errors import ConfigError
from s2s.model import State
from s2s.task import Vocab
from s2s_search import sampling
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

EOS, VOCAB = 3, Vocab(src=9, tgt=7)

table = partial(Table, VOCAB.tgt, seed=1, spread=1.0)


def batch_of(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    src = pad_sequence([torch.tensor([*source, EOS]) for source in sources], batch_first=True)
    return src, src == 0


def narrowed(probs: list[float], allowed: set[int], config: SampleConfig) -> dict[int, float]:
    """What a symbol is drawn with, by sorting and adding."""
    powers = {s: probs[s] ** (1 / config.temperature) for s in allowed}
    ranked = sorted(powers, key=lambda s: -powers[s])[: config.top_k or None]
    total, reached, kept = sum(powers[s] for s in ranked), 0.0, []
    for s in ranked:
        if reached >= config.top_p:
            break
        kept.append(s)
        reached += powers[s] / total
    whole = sum(powers[s] for s in kept)
    return {s: powers[s] / whole for s in kept}


def every_output(model: Table, source: list[int], config: SampleConfig, limit: int) -> dict[tuple[int, ...], float]:
    """The probability with which each output is to be drawn."""
    memory, found = model.encode(*batch_of([source])), {}
    for length in range(limit + 1):
        for output in itertools.product([1, 4, 5, 6], repeat=length):
            chance = 1.0
            for i, token in enumerate([*output, EOS]):
                probs = model.decode(torch.tensor([[2, *output[:i]]]), memory)[0, -1].softmax(-1).tolist()
                chance *= narrowed(probs, {EOS} if i == limit else {1, 3, 4, 5, 6}, config).get(token, 0.0)
            found[output] = chance
    return found


OPTIONS = [{}, {"temperature": 0.5}, {"temperature": 3.0}, {"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.8}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_outputs_come_as_often_as_their_probability_says(options: dict[str, float]) -> None:
    config = SampleConfig(**options, max_len_a=0.0, max_len_b=2)  # type: ignore[arg-type]
    model, n = table(), 4000
    (found,) = find(Sampling(config), model, *batch_of([[5, 6]]), VOCAB, nbest=n)
    often = Counter(tuple(h.tokens) for h in found)
    with torch.no_grad():
        expected = every_output(model, [5, 6], config, limit=2)
    assert sum(expected.values()) == pytest.approx(1.0)
    assert len(found) == n
    for output, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / n)
        assert often[output] / n == pytest.approx(chance, abs=5 * spread + 1e-9), output


def test_a_sample_depends_on_its_sentence_seed_and_number_alone() -> None:
    """Alone, among others, in another order, beside more samples."""
    sources, model = [[4], [5, 6, 7], [8, 8], [4, 5, 6, 7, 8]], table()

    def tokens(lines: list[list[int]], n: int = 3, seed: int = 1) -> list[set[tuple[int, ...]]]:
        found = find(Sampling(SampleConfig(seed=seed, max_len_b=6)), model, *batch_of(lines), VOCAB, nbest=n)
        return [{tuple(h.tokens) for h in row} for row in found]

    together = tokens(sources)
    assert together == [tokens([source])[0] for source in sources]
    assert together[::-1] == tokens(sources[::-1])
    assert all(few <= many for few, many in zip(together, tokens(sources, n=8), strict=True))
    assert together != tokens(sources, seed=2)


@pytest.mark.parametrize("n_tokens", [1, 12, 1000])
def test_samples_are_the_same_when_sentences_are_let_in_as_others_leave(n_tokens: int) -> None:
    """The waiting ones take the places of those that are done, and each draws as it would alone."""
    draw = random.Random(0)
    sources = [draw.choices(range(4, 9), k=draw.randint(1, 8)) for _ in range(12)]
    sampler = Sampling(SampleConfig(max_len_b=6))
    for model in (table(), Recurrent(9)):
        vocab = Vocab(src=9, tgt=9 if isinstance(model, Recurrent) else 7)
        queue = FixedQueue((SourceSentence(i, [*source, EOS]) for i, source in enumerate(sources)), n_tokens)
        found = find_queued(sampler, model, queue, vocab, nbest=3)
        for i, source in enumerate(sources):
            (alone,) = find(sampler, model, *batch_of([source]), vocab, nbest=3)
            assert [h.tokens for h in found[i]] == [h.tokens for h in alone]
            assert [h.score for h in found[i]] == pytest.approx([h.score for h in alone], rel=1e-5)


def test_a_sentence_that_asks_for_fewer_samples_draws_the_first_ones() -> None:
    sampler, wanted = Sampling(SampleConfig(max_len_b=6)), [1, 3, None, 2]
    queue = FixedQueue((SourceSentence(i, [4 + i, 5, EOS], nbest=n) for i, n in enumerate(wanted)), n_tokens=1000)
    found = find_queued(sampler, table(), queue, VOCAB, nbest=4)
    for i, n in enumerate(wanted):
        (alone,) = find(sampler, table(), *batch_of([[4 + i, 5]]), VOCAB, nbest=n or 4)
        assert [h.tokens for h in found[i]] == [h.tokens for h in alone]


def test_a_sentence_that_is_done_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where states join, a queue that holds two at once takes fewer steps than pairs one after the other."""
    monkeypatch.setattr(State, "supports_join", True)
    sources = [[4 + i % 5] * 2 for i in range(16)]
    config, n_steps = SampleConfig(max_len_a=0.0, max_len_b=40), []
    model = Recurrent(9)
    step = model.step
    model.step = lambda *given: n_steps.append(1) or step(*given)  # type: ignore[method-assign]
    vocab = Vocab(src=9, tgt=9)

    def steps(groups: list[list[list[int]]]) -> int:
        n_steps.clear()
        for group in groups:
            queue = FixedQueue((SourceSentence(i, [*source, EOS]) for i, source in enumerate(group)), n_tokens=6)
            assert len(find_queued(Sampling(config), model, queue, vocab)) == len(group)
        return len(n_steps)

    assert steps([sources]) < steps([sources[i : i + 2] for i in range(0, 16, 2)])


def test_the_most_probable_of_one_is_the_greedy_output() -> None:
    sources, model = [[4], [5, 6, 7], [8, 8]], table()
    drawn = find(Sampling(SampleConfig(top_k=1)), model, *batch_of(sources), VOCAB)
    found = find(greedy(GreedyConfig()), model, *batch_of(sources), VOCAB)
    assert [h[0].tokens for h in drawn] == [h[0].tokens for h in found]
    for (one,), (other,) in zip(drawn, found, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, rel=1e-5)
        assert one.score == one.log_prob == pytest.approx(sum(one.token_log_probs))


class Alternate:
    """Outputs (4 5)*, of an even number of symbols; nothing at all for a source that begins with 6."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.where(src[:, :1, None] == 6, 1000, 0)

    def allowed(self, state: Tensor) -> Tensor:
        allowed = torch.zeros(*state.shape[:2], VOCAB.tgt, dtype=torch.bool)
        odd = state[..., 0] % 2 == 1
        allowed[..., 4], allowed[..., 5], allowed[..., EOS] = ~odd, odd, ~odd
        return allowed & (state < 1000)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state + 1


def test_samples_keep_the_constraint_and_one_without_any_output_has_none() -> None:
    config = SampleConfig(max_len_a=0.0, max_len_b=20)
    found = find(Sampling(config), table(), *batch_of([[4], [6, 5], [7]]), VOCAB, Alternate(), nbest=5)
    assert [len(row) for row in found] == [5, 0, 5]
    assert all(h.tokens == [4, 5] * (len(h.tokens) // 2) for row in found for h in row)


def test_logits_that_are_not_finite_have_no_samples_and_an_empty_batch_no_rows() -> None:
    model = table()
    model.logits.data[:, 4] = torch.nan
    assert find(Sampling(SampleConfig()), model, *batch_of([[4], [5]]), VOCAB) == [[], []]
    empty = torch.empty(0, 1, dtype=torch.long)
    assert find(Sampling(SampleConfig()), model, empty, empty == 0, VOCAB) == []


def test_random_numbers_are_those_of_the_key() -> None:
    """SplitMix64 with integers of any size (Steele et al., 2014)."""
    key = SourceSentence(0, [5, 6, EOS]).sampling_key(seed=7, number=2)
    found = sampling._uniform(key, 20).tolist()
    for i, number in enumerate(found):
        x = (key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        assert number == ((x ^ x >> 31) >> 11) / 2**53


def test_keys_differ_in_all_that_they_depend_on() -> None:
    one = SourceSentence(0, [5, 6, EOS])
    others = [SourceSentence(0, ids) for ids in ([6, 5, EOS], [5, EOS], [5, 6, 6, EOS])]
    keys = [one.sampling_key(1, 0), one.sampling_key(1, 1), one.sampling_key(2, 0), one.sampling_key(0, 1)]
    keys += [other.sampling_key(1, 0) for other in others]
    assert len(set(keys)) == len(keys)
    assert SourceSentence(3, one.ids, nbest=2, starting_tokens=(4,)).sampling_key(1, 0) == keys[0]


def test_random_numbers_are_uniform_over_sources_and_over_steps() -> None:
    """Chi-squared with 63 degrees of freedom; 103.4 is its 99.9th percentile."""
    keys = [SourceSentence(0, [4 + i, EOS]).sampling_key(1, k) for i in range(200) for k in range(4)]
    numbers = torch.stack([sampling._uniform(key, 16) for key in keys])  # [800, 16]
    for some in (numbers[:, 0], numbers[:, 15], numbers.flatten(), (numbers[:, 1:] - numbers[:, :-1]).flatten() % 1):
        counts = (some * 64).long().bincount(minlength=64)
        expected = len(some) / 64
        assert ((counts - expected) ** 2 / expected).sum() < 103.4


@pytest.mark.parametrize("bad", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}], ids=str)
def test_options_without_meaning_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        SampleConfig(**bad)  # type: ignore[arg-type]
