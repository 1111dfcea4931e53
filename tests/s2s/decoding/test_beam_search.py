"""Search against enumeration of all outputs, and against a slow beam search with lists, sentence by sentence.

Shapes: B sentences, S source length, T target length, K hypotheses per sentence, V symbols, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.recurrent_model import Recurrent
from harness.reference_operators import use_references
from harness.reference_search import (
    EOS,
    assert_same,
    banned,
    batch_of,
    every_output,
    limit_of,
    next_log_probs,
    penalty,
    slow_beam,
    sources,
)
from harness.search_calls import find, find_queued
from harness.table_model import Table
from s2s.backend.operators import top_k
from s2s.decoding import BeamConfig, GreedyConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch, greedy
from s2s.decoding.queue import FixedQueue
from s2s.errors import ConfigError
from s2s.model import Memory, Seq2Seq, State
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VOCAB = Vocab(src=12, tgt=7)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.0])
@pytest.mark.parametrize("length_penalty", ["gnmt", "power", "none"])
@pytest.mark.parametrize("stop", ["exact", "best"])
def test_a_wide_beam_finds_all_outputs_in_order(alpha: float, length_penalty: Any, stop: Any) -> None:
    """With a beam as wide as the space, search must equal exhaustive enumeration, down to the last."""
    config = BeamConfig(beam=85, alpha=alpha, length_penalty=length_penalty, stop=stop, max_len_a=1.0, max_len_b=1)
    model = Table(VOCAB.tgt, seed=3)
    found = find(BeamSearch(config), model, *batch_of([[5, 6], [7]]), VOCAB, nbest=85)
    for hypotheses, source in zip(found, [[5, 6], [7]], strict=True):
        assert_same(hypotheses, every_output(model, source, config, VOCAB.tgt))


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 2.0])
@pytest.mark.parametrize("length_penalty", ["gnmt", "power"])
@pytest.mark.parametrize("stop", ["exact", "best", "first_k", "heuristic"])
@pytest.mark.parametrize(("beam", "nbest"), [(1, 1), (2, 1), (3, 3), (5, 2)])
def test_search_is_the_slow_search(alpha: float, length_penalty: Any, stop: Any, beam: int, nbest: int) -> None:
    """A batch of mixed lengths gives what lists give, sentence by sentence, under every stop rule."""
    config = BeamConfig(beam=beam, alpha=alpha, length_penalty=length_penalty, stop=stop, max_len_a=0.5, max_len_b=3)
    model, inputs = Table(VOCAB.tgt, seed=beam), sources(6, 6, VOCAB.src, seed=beam)
    found = find(BeamSearch(config), model, *batch_of(inputs), VOCAB, nbest=nbest)
    for hypotheses, source in zip(found, inputs, strict=True):
        assert_same(hypotheses, slow_beam(next_log_probs(model, source), source, config, nbest))


def test_a_length_is_counted_with_what_begins_outputs() -> None:
    config = BeamConfig(beam=4, alpha=1.5, length_penalty="power", length_offset=2, max_len_b=3)
    model, inputs = Table(VOCAB.tgt, seed=1), sources(6, 6, VOCAB.src, seed=1)
    found = find(BeamSearch(config), model, *batch_of(inputs), VOCAB, nbest=4)
    for hypotheses, source in zip(found, inputs, strict=True):
        assert_same(hypotheses, slow_beam(next_log_probs(model, source), source, config, 4))


def test_exact_and_best_agree_but_best_stops_sooner() -> None:
    """Both may stop only when what is returned can no longer change, so only the time differs."""

    def steps_and_outputs(stop: Any) -> tuple[int, list[list[list[int]]]]:
        model, steps = Table(VOCAB.tgt, seed=2), []
        step = model.step
        model.step = lambda *arguments: steps.append(1) or step(*arguments)  # type: ignore[method-assign]
        found = find(BeamSearch(BeamConfig(stop=stop)), model, *batch_of(sources(8, 5, 12)), VOCAB)
        return len(steps), [[h.tokens for h in hypotheses] for hypotheses in found]

    exact_steps, exact = steps_and_outputs("exact")
    best_steps, best = steps_and_outputs("best")
    assert exact == best
    assert best_steps < exact_steps < 50


@pytest.mark.parametrize("ban_unk", [False, True])
def test_greedy_takes_the_most_probable_symbol_every_time(ban_unk: bool) -> None:
    config = GreedyConfig(max_len_a=1.0, max_len_b=3, ban_unk=ban_unk)
    model, inputs = Table(VOCAB.tgt), sources(12, 6, VOCAB.src)
    found = find(greedy(config), model, *batch_of(inputs), VOCAB)
    for hypotheses, source in zip(found, inputs, strict=True):
        of, tokens, log_prob = next_log_probs(model, source), [], 0.0
        while not tokens or tokens[-1] != EOS:
            allowed = {s: p for s, p in enumerate(of(tokens)) if s not in banned(config)}
            full = len(tokens) == limit_of(config, source)
            tokens.append(EOS if full else max(allowed, key=lambda s: allowed[s]))
            log_prob += allowed[tokens[-1]]
        assert_same(hypotheses, [(log_prob, tokens[:-1])])


def test_every_sentence_has_its_own_limit() -> None:
    """A model that never wants to end fills each output to max_len_a * own length + max_len_b."""
    model = Table(VOCAB.tgt)
    model.logits.data[:, EOS] = -30.0
    inputs = [[4] * n for n in (1, 2, 5, 9)]
    config = BeamConfig(max_len_a=1.5, max_len_b=2)
    found = find(BeamSearch(config), model, *batch_of(inputs), VOCAB)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [3, 5, 9, 15]


def test_no_output_is_longer_than_the_model_can_take() -> None:
    model = Table(VOCAB.tgt)
    model.logits.data[:, EOS] = -30.0
    model.max_len = 7
    found = find(BeamSearch(BeamConfig()), model, *batch_of([[4]]), VOCAB)
    assert len(found[0][0].tokens) == 6  # and eos


def test_an_output_has_room_for_one_symbol_at_least() -> None:
    model = Table(VOCAB.tgt)
    model.logits.data[:, EOS] = -30.0
    found = find(BeamSearch(BeamConfig(max_len_a=0.1, max_len_b=0)), model, *batch_of([[4]]), VOCAB, nbest=4)
    assert sorted(len(h.tokens) for h in found[0]) == [0, 1, 1, 1]


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_an_output_does_not_depend_on_its_batch(beam: int) -> None:
    """Alone, all together, in any order: the same symbols, though lengths and ends are mixed."""
    vocab = Vocab(src=40, tgt=40)
    model, inputs = Recurrent(40), sources(12, 14, 40)
    search = BeamSearch(BeamConfig(beam=beam, max_len_b=10))

    def outputs(lines: Sequence[Sequence[int]]) -> list[list[list[int]]]:
        found = find(search, model, *batch_of(lines), vocab, nbest=beam)
        return [[h.tokens for h in hypotheses] for hypotheses in found]

    together = outputs(inputs)
    assert len({len(hypotheses[0]) for hypotheses in together}) > 2  # they do end at different steps
    assert together == [outputs([line])[0] for line in inputs]
    assert together[::-1] == outputs(inputs[::-1])
    assert together[::3] == outputs(inputs[::3])


@pytest.mark.parametrize("beam", [1, 3, 6])
def test_the_state_follows_the_hypotheses_it_belongs_to(beam: int) -> None:
    """A cached model, searched with its cache, gives what the same gives when every prefix is run anew."""
    vocab, inputs = Vocab(src=9, tgt=9), sources(5, 6, 9)
    model, config = Recurrent(9), BeamConfig(beam=beam, max_len_b=4)
    found = find(BeamSearch(config), model, *batch_of(inputs), vocab, nbest=beam)
    for hypotheses, source in zip(found, inputs, strict=True):
        assert_same(hypotheses, slow_beam(next_log_probs(model, source), source, config, beam))


def test_the_default_step_searches_as_the_cached_one() -> None:
    class Uncached(Recurrent):
        def start(self, memory: Memory) -> State:
            return Seq2Seq.start(self, memory)

        def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
            if isinstance(state.hypothesis, dict):  # called from `decode`
                return super().step(token, state)
            return Seq2Seq.step(self, token, state)

        def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
            state, logits = Recurrent.start(self, memory), []
            for token in tgt.split(1, dim=1):
                output, state = Recurrent.step(self, token, state)
                logits.append(output)
            return torch.cat(logits, dim=1)

    vocab, batch = Vocab(src=9, tgt=9), batch_of(sources(5, 6, 9))
    search = BeamSearch(BeamConfig(max_len_b=6))
    cached, uncached = (find(search, model(9), *batch, vocab) for model in (Recurrent, Uncached))
    assert [h[0].tokens for h in cached] == [h[0].tokens for h in uncached]


def test_the_n_best_are_sorted_and_all_different_and_add_up() -> None:
    config = BeamConfig(beam=8, alpha=0.6)
    found = find(BeamSearch(config), Table(VOCAB.tgt), *batch_of(sources(6, 6, VOCAB.src)), VOCAB, nbest=8)
    for hypotheses in found:
        assert len(hypotheses) == 8
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == 8
        for h in hypotheses:
            assert len(h.token_log_probs) == len(h.tokens) + 1
            assert h.log_prob == pytest.approx(sum(h.token_log_probs))
            assert h.score == pytest.approx(h.log_prob / penalty(config, len(h.tokens) + 1), rel=1e-5)
            assert not set(h.tokens) & {VOCAB.pad, VOCAB.bos, VOCAB.eos}


@pytest.mark.parametrize("nbest", [0, 5])
def test_more_outputs_than_the_beam_holds_are_refused(nbest: int) -> None:
    with pytest.raises(ConfigError, match=f"nbest={nbest} must lie between 1 and the beam, which is 4"):
        find(BeamSearch(BeamConfig()), Table(7), *batch_of([[4]]), VOCAB, nbest=nbest)


class Alternate:
    """Outputs of the form (4 5)*, and never longer than `most` symbols: state [B, K, 1] counts."""

    def __init__(self, most: int = 100) -> None:
        self.most = most

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(src.size(0), 1, 1, dtype=torch.long)

    def allowed(self, state: Tensor) -> Tensor:
        allowed = torch.zeros(*state.shape[:2], VOCAB.tgt, dtype=torch.bool)
        odd = state[..., 0] % 2 == 1
        allowed[..., 4], allowed[..., 5], allowed[..., EOS] = ~odd, odd, ~odd
        return allowed & (state < self.most)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state + 1


def test_a_constraint_is_kept_and_the_best_that_keeps_it_is_found() -> None:
    config = BeamConfig(beam=4, max_len_a=0.0, max_len_b=7)
    model, inputs = Table(VOCAB.tgt), sources(4, 5, VOCAB.src)
    found = find(BeamSearch(config), model, *batch_of(inputs), VOCAB, Alternate(), nbest=4)
    for hypotheses, source in zip(found, inputs, strict=True):
        of, expected = next_log_probs(model, source), []
        for n in range(4):  # 8 symbols would pass the limit
            tokens = [*([4, 5] * n), EOS]
            log_prob = sum(of(tokens[:i])[token] for i, token in enumerate(tokens))
            expected.append((log_prob / penalty(config, len(tokens)), tokens[:-1]))
        assert_same(hypotheses, sorted(expected, reverse=True))


def test_a_sentence_without_any_allowed_output_gets_none() -> None:
    """Its neighbours lose nothing, and the search ends."""

    class Picky(Alternate):
        def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
            return torch.where(src[:, :1, None] == 6, 1000, 0)

    for stop in ("exact", "best", "first_k", "heuristic"):
        search = BeamSearch(BeamConfig(stop=stop))  # type: ignore[arg-type]
        found = find(search, Table(VOCAB.tgt), *batch_of([[4], [6, 5], [7]]), VOCAB, Picky())
        assert [len(hypotheses) for hypotheses in found] == [1, 0, 1]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_logits_that_are_not_finite_end_the_search_without_an_output(bad: float) -> None:
    model = Table(VOCAB.tgt)
    model.logits.data[:, 4] = bad
    assert find(BeamSearch(BeamConfig()), model, *batch_of([[4], [5]]), VOCAB) == [[], []]


def test_an_empty_batch_gives_no_outputs() -> None:
    empty = torch.empty(0, 1, dtype=torch.long)
    assert find(BeamSearch(BeamConfig()), Table(7), empty, empty == 0, VOCAB) == []


def rows_with_ties() -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(0)
    yield torch.zeros(2, 9)
    yield torch.full((1, 5), -torch.inf)
    yield torch.tensor([[1.0, -torch.inf, 1.0, -0.0, 0.0, -3.0, -3.0, 1.0]])
    for n in (3, 8, 50, 2000):
        yield torch.randint(-4, 5, (3, 4, n), generator=draw) / 2


@pytest.mark.parametrize("scores", list(rows_with_ties()), ids=lambda s: "x".join(map(str, s.shape)))
def test_of_equal_scores_the_first_comes_first(scores: Tensor) -> None:
    for n in (1, 3, 8):
        values, index = top_k(scores, n)
        expected = scores.sort(dim=-1, descending=True, stable=True)
        finite = expected.values[..., :n] > -torch.inf
        assert torch.equal(values, expected.values[..., :n])
        assert torch.equal(index[finite], expected.indices[..., :n][finite])


def test_ties_go_to_the_lower_symbol() -> None:
    """A model that knows nothing: all that is decided is decided by the order of ids."""
    model = Table(VOCAB.tgt)
    model.logits.data.zero_()
    found = find(BeamSearch(BeamConfig(beam=3, max_len_a=0.0, max_len_b=2)), model, *batch_of([[4]]), VOCAB, nbest=3)
    # One in seven each time. Of the six candidates of the second step, five go on from [1] and one from [4].
    assert [h.tokens for h in found[0]] == [[], [1], [1, 1]]


@pytest.mark.parametrize(
    "options", [{"beam": 0}, {"max_len_a": -1.0}, {"max_len_b": -1}, {"max_len_a": 0.0, "max_len_b": 0}]
)
def test_impossible_options_are_refused_by_their_names(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"search.{next(iter(options))}="):
        BeamConfig(**options)


def test_without_options_the_search_is_that_of_section_6_1() -> None:
    """A beam of 4, alpha 0.6, and outputs of up to 50 tokens more than their source."""
    config = BeamConfig()
    assert (config.beam, config.alpha, config.length_penalty) == (4, 0.6, "gnmt")
    assert (config.max_len_a, config.max_len_b, config.ban_unk) == (1.0, 50, False)


@pytest.mark.parametrize(
    ("option", "bound", "beyond"),
    [
        ("beam", 1, 0), ("beam", 10_000, 10_001), ("alpha", -10.0, -10.5), ("alpha", 10.0, 10.5),
        ("max_len_a", 0.0, -0.5), ("max_len_a", 1000.0, 1000.5), ("max_len_b", 0, -1), ("max_len_b", 10**6, 10**6 + 1),
    ],
)  # fmt: skip
def test_options_have_bounds(option: str, bound: float, beyond: float) -> None:
    assert getattr(BeamConfig(**{option: bound}), option) == bound  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"search.{option}="):
        BeamConfig(**{option: beyond})  # type: ignore[arg-type]


@pytest.mark.parametrize("native", [True, False], ids=["native", "torch"])
def test_a_sentence_that_comes_late_has_its_one_hypothesis_widened_to_a_beam_larger_than_the_vocabulary(
    native: bool, monkeypatch: pytest.MonkeyPatch, plugin_operators: str
) -> None:
    """Others are further on, with more hypotheses than there are tokens: none of those added may count."""
    if not native:
        use_references(monkeypatch)
    vocab = Vocab(src=9, tgt=7)
    search = BeamSearch(BeamConfig(beam=20, max_len_a=1.0, max_len_b=2))
    sources = [SourceSentence(i, [4 + (i + j) % 5 for j in range(1 + 5 * i % 7)]) for i in range(12)]

    def outputs(n_tokens: int) -> list[list[tuple[list[int], float]]]:
        found = find_queued(search, Table(vocab.tgt, seed=4), FixedQueue(sources, n_tokens), vocab, nbest=20)
        return [[(h.tokens, h.score) for h in hypotheses] for hypotheses in found]

    together = outputs(1000)
    assert all(len({tuple(tokens) for tokens, _ in one}) == len(one) for one in together), "each output once"
    assert outputs(12) == outputs(1) == together
