"""Diverse beam search against the same search with lists, sentence by sentence, and against its guarantees."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.recurrent_model import Recurrent
from harness.reference_operators import use_references
from harness.reference_search import (
    EOS,
    assert_same,
    banned,
    batch_of,
    is_over,
    limit_of,
    next_log_probs,
    penalty,
    slow_beam,
    sources,
)
from harness.search_calls import find, find_queued
from harness.table_model import Table
from harness.token_wishes import Wish
from s2s.decoding import SourceSentence
from s2s.decoding.queue import FixedQueue
from s2s.errors import ConfigError
from s2s.task import Vocab
from s2s_search import DiverseBeamConfig
from s2s_search.diverse import build_beam_search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.reference_search import NextLogProbs, Scored

pytestmark = pytest.mark.usefixtures("plugin_operators")

VOCAB = Vocab(src=12, tgt=9)


def slow_groups(of: NextLogProbs, source: Sequence[int], config: DiverseBeamConfig, nbest: int) -> list[Scored]:
    """Each group a list of live outputs and one of ended ones."""
    limit, width = limit_of(config, source), config.beam // config.num_beam_groups
    own = replace(config, beam=width, num_beam_groups=1, diversity_penalty=0.5)
    live: list[list[Scored]] = [[(0.0, [])] for _ in range(config.num_beam_groups)]
    ended: list[list[Scored]] = [[] for _ in range(config.num_beam_groups)]
    done = [False] * config.num_beam_groups
    for length in range(1, limit + 2):
        taken: Counter[int] = Counter()
        for g in [g for g in range(config.num_beam_groups) if not done[g]]:
            candidates = sorted(
                (
                    (log_prob + p - config.diversity_penalty * taken[symbol], log_prob + p, [*prefix, symbol])
                    for log_prob, prefix in live[g]
                    for symbol, p in enumerate(of(prefix))
                    if symbol not in banned(config) and (symbol == EOS or len(prefix) < limit)
                ),
                reverse=True,
            )[: 2 * width]
            counted = candidates[:width] if config.stop == "first_k" else candidates
            ended[g] += [(p / penalty(config, length), y[:-1]) for _, p, y in counted if y[-1] == EOS]
            ended[g] = sorted(ended[g], reverse=True)[:width]
            live[g] = [(p, y) for _, p, y in candidates if y[-1] != EOS][:width]
            taken.update(y[-1] for _, y in live[g])
            best = max(live[g], default=None)
            lengths = range(length + 1, limit + 2)
            done[g] = best is None or is_over(best[0], ended[g], lengths, own, min(nbest, width))
    different = {tuple(y): (p, y) for group in ended for p, y in group}
    return sorted(different.values(), reverse=True)[:nbest]


@pytest.fixture(params=["native", "torch"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        use_references(monkeypatch)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("stop", ["exact", "best", "first_k"])
@pytest.mark.parametrize("diversity", [0.5, 3.0])
@pytest.mark.parametrize(("beam", "groups", "nbest"), [(2, 2, 2), (6, 3, 4), (6, 2, 1), (4, 4, 4), (16, 2, 16)])
def test_groups_are_the_slow_groups(stop: Any, diversity: float, beam: int, groups: int, nbest: int) -> None:
    """A batch of mixed lengths gives what lists give, under every stop rule, and where symbols are too few."""
    config = DiverseBeamConfig(
        beam=beam, num_beam_groups=groups, diversity_penalty=diversity, stop=stop, max_len_a=0.5, max_len_b=3
    )
    model, inputs = Table(VOCAB.tgt, seed=beam), sources(4, 6, VOCAB.src, seed=beam)
    found = find(build_beam_search(config), model, *batch_of(inputs), VOCAB, nbest=nbest)
    for hypotheses, source in zip(found, inputs, strict=True):
        assert_same(hypotheses, slow_groups(next_log_probs(model, source), source, config, nbest))


def test_a_penalty_without_groups_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^search.diversity_penalty=2.0 has no effect without search.num_beam_group"):
        DiverseBeamConfig(beam=6, diversity_penalty=2.0)


def test_scores_are_those_of_the_model() -> None:
    config = DiverseBeamConfig(beam=6, num_beam_groups=3, diversity_penalty=2.0, max_len_b=4)
    model, inputs = Table(VOCAB.tgt), sources(4, 5, VOCAB.src)
    found = find(build_beam_search(config), model, *batch_of(inputs), VOCAB, nbest=6)
    for hypotheses, source in zip(found, inputs, strict=True):
        of = next_log_probs(model, source)
        for h in hypotheses:
            log_probs = [of(h.tokens[:i])[token] for i, token in enumerate([*h.tokens, EOS])]
            assert h.token_log_probs == pytest.approx(log_probs, rel=1e-4)
            assert h.score == pytest.approx(sum(log_probs) / penalty(config, len(log_probs)), rel=1e-4)


def test_groups_find_the_same_until_they_are_driven_apart() -> None:
    """Four groups of one: without diversity one output, once; with more and more, first symbols that differ more."""
    model, inputs = Table(VOCAB.tgt, spread=3.0), sources(20, 6, VOCAB.src)

    def found(diversity: float) -> list[list[list[int]]]:
        search = build_beam_search(
            DiverseBeamConfig(beam=4, num_beam_groups=4, diversity_penalty=diversity, max_len_b=4)
        )
        return [[h.tokens for h in row] for row in find(search, model, *batch_of(inputs), VOCAB, nbest=4)]

    assert [len(row) for row in found(0.0)] == [1] * len(inputs)
    few, many = (sum(len({tuple(y[:1]) for y in row}) for row in found(diversity)) for diversity in (1.0, 10.0))
    assert 20 < few < many


def test_the_first_group_is_a_beam_of_its_width() -> None:
    """Nobody is before it: what a beam of two finds is among the outputs, and the best is no worse."""
    model, inputs = Table(VOCAB.tgt, seed=4), sources(8, 6, VOCAB.src)
    config = DiverseBeamConfig(beam=6, num_beam_groups=3, diversity_penalty=1.0, max_len_b=4)
    one_group = DiverseBeamConfig(beam=2, max_len_b=4)
    found = find(build_beam_search(config), model, *batch_of(inputs), VOCAB, nbest=6)
    for hypotheses, source in zip(found, inputs, strict=True):
        own = slow_beam(next_log_probs(model, source), source, one_group, 2)
        assert {tuple(y) for _, y in own} <= {tuple(h.tokens) for h in hypotheses}


@pytest.mark.usefixtures("kind")
def test_an_output_does_not_depend_on_its_batch() -> None:
    """Alone, together, in any order, and let in as others leave."""
    vocab, inputs = Vocab(src=40, tgt=40), sources(7, 9, 40)
    search = build_beam_search(DiverseBeamConfig(beam=4, num_beam_groups=2, max_len_b=6))
    for model in (Table(40), Recurrent(40)):
        together = [[h.tokens for h in row] for row in find(search, model, *batch_of(inputs), vocab, nbest=4)]
        alone = [[h.tokens for h in find(search, model, *batch_of([one]), vocab, nbest=4)[0]] for one in inputs]
        assert together == alone
        queue = FixedQueue((SourceSentence(i, [*one, EOS]) for i, one in enumerate(inputs)), n_tokens=30)
        streamed = [[h.tokens for h in row] for row in find_queued(search, model, queue, vocab, nbest=4)]
        assert streamed == together


@pytest.mark.usefixtures("kind")
def test_what_is_asked_of_an_output_holds_in_every_group() -> None:
    wishes = [Wish(prefix=(4, 5)), Wish(phrases=((6,), (7, 8))), Wish()]
    constraints = [wish.constraint(VOCAB.tgt) for wish in wishes]
    search = build_beam_search(
        DiverseBeamConfig(beam=6, num_beam_groups=2, diversity_penalty=1.0, max_len_a=0.0, max_len_b=7)
    )
    queue = FixedQueue((SourceSentence(i, [5, 6, EOS], one) for i, one in enumerate(constraints)), n_tokens=100)
    rows = find_queued(search, Table(VOCAB.tgt), queue, VOCAB, nbest=6)
    found = [[h.tokens for h in hypotheses] for hypotheses in rows]
    assert all(found)
    assert all(tokens[:2] == [4, 5] for tokens in found[0])
    for tokens in found[1]:
        assert 6 in tokens
        assert (7, 8) in itertools.pairwise(tokens)


def test_groups_of_unequal_size_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"search.beam=4 must be a multiple of search.num_beam_groups=3"):
        DiverseBeamConfig(beam=4, num_beam_groups=3)
