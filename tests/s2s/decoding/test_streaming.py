"""A batch that stays full: which sentences start when, with how many steps, and in which rows."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch

from harness.open_queue import OpenQueue
from harness.search_calls import find_queued
from harness.table_model import JoiningTable, Table
from s2s.decoding import BatchConstraint, BeamConfig, SourceSentence, beam_search
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.decoding.starting import pad_sources
from s2s.decoding.streaming import remaining_rows
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import Tensor

    from s2s.decoding import Beams, Candidates, SearchResult

VOCAB = Vocab(src=9, tgt=9)
SENTENCES = [SourceSentence(i, [4 + i, 5, 3]) for i in range(4)]
CONFIG = BeamConfig(beam=2, max_len_a=0.0, max_len_b=6)


class Recording(BeamSearch):
    """Notes the sentences of every call of `steps`, whether they have just been started, and the steps it may take."""

    def __init__(self, config: BeamConfig) -> None:
        super().__init__(config)
        self.calls: list[tuple[list[int], bool, int]] = []

    def steps(self, batch: Beams, max_steps: int) -> Beams:
        self.calls.append(([one.index for one in batch.sentences], not batch.length.any(), max_steps))
        return super().steps(batch, max_steps)


def test_newcomers_take_one_step_and_a_batch_as_many_as_the_queue_allows() -> None:
    """So no running search waits for more than the first step of the others."""
    search = Recording(CONFIG)
    found = find_queued(search, JoiningTable(9), FixedQueue(SENTENCES, 6), VOCAB)
    assert [len(hypotheses) for hypotheses in found] == [1] * 4
    started = [(sentences, max_steps) for sentences, is_new, max_steps in search.calls if is_new]
    assert started == [([0, 1], sys.maxsize), ([2], 1), ([3], 1)]
    assert {max_steps for _, is_new, max_steps in search.calls if not is_new} == {sys.maxsize}
    assert any(2 in sentences and len(sentences) == 2 for sentences, _, _ in search.calls), "then they join"


class AsWideAsTheSource:
    """A constraint that allows everything, whose states have an element for each token of the source."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(len(src), 1, int((~pad).sum(1).max()), dtype=torch.long)

    def allowed(self, state: Tensor) -> Tensor:
        return torch.ones(*state.shape[:2], VOCAB.tgt, dtype=torch.bool)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state


def test_sentences_whose_constraint_is_of_another_width_form_the_next_batch() -> None:
    sentences = [SourceSentence(i, [*[4 + i] * (n - 1), 3]) for i, n in enumerate((3, 3, 5, 3, 3))]
    search = Recording(CONFIG)
    found = find_queued(search, JoiningTable(9), FixedQueue(sentences, 8), VOCAB, constraint=AsWideAsTheSource())
    assert found == find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue(sentences, 1), VOCAB)
    for batch, _, _ in search.calls:
        assert len({len(sentences[i].ids) for i in batch}) == 1
    started = [batch for batch, is_new, _ in search.calls if is_new]
    assert started == [[0, 1], [2], [3], [4]]
    further = [batch for batch, is_new, _ in search.calls if not is_new]
    assert further.index([2]) < further.index([3, 4]), "they wait for the batch to end, and others may join them"


@pytest.mark.parametrize("model", [Table, JoiningTable], ids=["alone", "joining"])
def test_outputs_do_not_depend_on_who_is_in_the_batch(model: type[Table]) -> None:
    def outputs(n_tokens: int) -> list[list[Any]]:
        return find_queued(BeamSearch(CONFIG), model(9), FixedQueue(SENTENCES, n_tokens), VOCAB, nbest=2)

    assert outputs(1) == outputs(6) == outputs(9) == outputs(100)


class Cancelling(OpenQueue):
    """Cancels one sentence after so many steps."""

    def __init__(self, n_tokens: int, after: int, index: int) -> None:
        super().__init__(SENTENCES, n_tokens)
        self.after, self.index = after, index

    def take_cancelled(self) -> Collection[int]:
        self.after -= 1
        return {self.index} if self.after == 0 else ()


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("n_tokens", [3, 100], ids=["alone", "together"])
def test_a_cancelled_sentence_has_no_result_and_the_others_have_theirs(after: int, n_tokens: int) -> None:
    search = Recording(CONFIG)
    found = find_queued(search, JoiningTable(9), Cancelling(n_tokens, after, index=0), VOCAB)
    whole = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue(SENTENCES, 100), VOCAB)
    assert found == whole[1:]
    assert {max_steps for _, _, max_steps in search.calls} == {1}, "any step may be the last of one of them"
    assert sum(0 in sentences for sentences, _, _ in search.calls) == after


def test_rows_that_remain_keep_their_places_and_the_last_fill_the_gaps() -> None:
    for done in itertools.product([False, True], repeat=5):
        rows = remaining_rows(torch.tensor(done)).tolist()
        kept = [row for row in range(5) if not done[row]]
        assert sorted(rows) == kept
        assert [row for row in kept if row < len(kept)] == [row for place, row in enumerate(rows) if place == row]
        assert [row for row in rows if row >= len(kept)] == [row for row in kept if row >= len(kept)]


@pytest.mark.parametrize(("graphs", "widths"), [(False, [3, 33]), (True, [32, 64])], ids=["CPU", "recorded"])
def test_sources_are_padded_to_the_longest_or_to_a_size_that_recurs(
    graphs: bool, widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.supports_graphs", graphs)
    for longest, width in zip((3, 33), widths, strict=True):
        sentences = [SourceSentence(0, [7, 3]), SourceSentence(1, [8] * longest)]
        src, pad = pad_sources(sentences, VOCAB, torch.device("cpu"))
        assert src.tolist() == [[7, 3, *[0] * (width - 2)], [8] * longest + [0] * (width - longest)]
        assert pad.tolist() == [[i >= n for i in range(width)] for n in (2, longest)]


@pytest.mark.parametrize("n_source", range(1, 10))
def test_a_later_sentence_may_be_longer_than_all_before(n_source: int) -> None:
    """Penalties are computed for the lengths that outputs may have, and once more where these do not suffice."""
    config = BeamConfig(beam=2, alpha=1.0, max_len_a=2.0, max_len_b=0)
    model, later = JoiningTable(9), SourceSentence(1, [4 + i % 5 for i in range(n_source)] + [3])
    model.logits.data[:, 3] = -30.0  # every output is as long as it may be
    queue = FixedQueue([SourceSentence(0, [7, 8, 3]), later], 1)
    alone = find_queued(BeamSearch(config), model, FixedQueue([later], 1), VOCAB)
    assert find_queued(BeamSearch(config), model, queue, VOCAB)[1] == alone[0]
    assert len(alone[0][0].tokens) == 2 * n_source


class CancelsTheThird(OpenQueue):
    """As soon as it has been admitted."""

    cancelled: Collection[int] = ()

    def admit(self, n_in_use: int) -> list[SourceSentence]:
        admitted = super().admit(n_in_use)
        if any(sentence.index == 2 for sentence in admitted):
            self.cancelled = {2}
        return admitted

    def take_cancelled(self) -> Collection[int]:
        cancelled, self.cancelled = self.cancelled, ()
        return cancelled


@pytest.mark.parametrize("longest", [0, 1])
def test_a_sentence_may_be_cancelled_while_it_waits_for_the_next_batch(longest: int) -> None:
    """What the sentences of this batch have found so far is kept."""
    lengths = [8 if i == longest else 3 for i in range(2)] + [5, 5]
    sentences = [SourceSentence(i, [*[4 + i] * (n - 1), 3]) for i, n in enumerate(lengths)]
    found = find_queued(
        BeamSearch(CONFIG), JoiningTable(9), CancelsTheThird(sentences, 13), VOCAB, constraint=AsWideAsTheSource()
    )
    whole = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue(sentences, 1), VOCAB)
    assert found == [*whole[:2], whole[3]]


def test_tokens_are_kept_no_longer_than_a_sentence_needs_them() -> None:
    n_kept: list[int] = []

    class Counting(BeamSearch):
        def step(self, batch: Beams) -> Beams:
            n_kept.append(len(batch.run.history.steps))
            return super().step(batch)

    sentences = [SourceSentence(i, [4 + i % 5, 5, 3]) for i in range(40)]
    find_queued(Counting(CONFIG), JoiningTable(9), FixedQueue(sentences, 6), VOCAB)
    assert len(n_kept) > 60
    assert max(n_kept) <= 16, "each of two at once has seven steps at most, and newcomers one of their own"


class Without:
    """The output of a sentence has none of one token; its states have `width` elements, of which the first is that."""

    def __init__(self, token: int, width: int) -> None:
        self.token, self.width = token, width

    def for_batch(self, every: BatchConstraint) -> Widening:
        assert every.automaton is None
        return Widening(self.width)


class Widening(BatchConstraint):
    """The constraint of a batch of such sentences, as wide as the widest of them needs it."""

    def __init__(self, width: int, tokens: Sequence[int] = ()) -> None:
        super().__init__(Automaton(width, tokens), VOCAB, normalize=True)
        self.width = width

    def for_sentences(self, constraints: Sequence[Any]) -> Widening:
        width = max(self.width, *(one.width for one in constraints if one), 0)
        return type(self)(width, [one.token if one else -1 for one in constraints])

    def widen(self, states: Tensor | None, before: Any, shape: tuple[int, int], device: Any) -> Tensor | None:
        if states is None:
            assert before.automaton is None
            return torch.full((*shape, self.width), -1)
        assert states.shape == (*shape, before.width)
        return torch.cat([states, states.new_zeros(*shape, self.width - before.width)], dim=2)


class Automaton:
    """Allows all but the token in the first element of a state."""

    def __init__(self, width: int, tokens: Sequence[int]) -> None:
        self.width, self.tokens = width, torch.tensor(tokens)

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        state = torch.zeros(len(src), 1, self.width, dtype=torch.long)
        state[:, 0, 0] = self.tokens
        return state

    def allowed(self, state: Tensor) -> Tensor:
        return torch.arange(VOCAB.tgt) != state[..., :1]

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3], ids=str)
def test_states_are_widened_for_sentences_that_join_with_constraints_of_their_own(order: tuple[int, ...]) -> None:
    own = [None, None, Without(5, 1), Without(6, 3)]
    sentences = [SourceSentence(i, [4 + i, 5, 3], own[kind]) for i, kind in enumerate((*order, *order[::-1]))]  # type: ignore[arg-type]
    alone = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue(sentences, 1), VOCAB, nbest=2)
    for n_tokens in (6, 9):
        search = Recording(CONFIG)
        assert find_queued(search, JoiningTable(9), FixedQueue(sentences, n_tokens), VOCAB, nbest=2) == alone
        assert any(len(batch) > 1 and not is_new for batch, is_new, _ in search.calls)
    for sentence, hypotheses in zip(sentences, alone, strict=True):
        wanted: Any = sentence.constraint
        assert wanted is None or all(wanted.token not in hypothesis.tokens for hypothesis in hypotheses)


class Sharing(Widening):
    """The same, which allocates the beam as a search without it would, and notes its calls."""

    calls: ClassVar[list[Any]] = []

    @property
    def allocation(self) -> Any:
        return self

    def add_required(
        self, states: Tensor, logits: Tensor, allowed: Tensor, log_probs: Tensor, tokens: Tensor, banned: Tensor
    ) -> tuple[Tensor, Tensor]:
        assert states.shape[:2] == logits.shape[:2] == allowed.shape[:2]
        self.calls.append("required")
        return log_probs, tokens

    def select(self, states: Tensor, candidates: Candidates, n: int) -> Candidates:
        self.calls.append(n)
        return candidates.first(n)


def test_a_constraint_that_allocates_the_beam_is_called_for_candidates_and_for_live_hypotheses() -> None:
    """Twice as many candidates as the beam has places, then as many as live on."""
    constraint: Any = Without(5, 1)
    sentence = SourceSentence(0, [4, 3], constraint)
    plain = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue([sentence], 9), VOCAB)
    constraint.for_batch = lambda every: Sharing(1)
    Sharing.calls.clear()
    shared = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue([sentence], 9), VOCAB)
    assert shared == plain
    assert len(Sharing.calls) >= 6
    assert Sharing.calls == ["required", 4, 2] * (len(Sharing.calls) // 3)


class Unchanged(BeamSearch):
    """Overrides nothing."""


class OtherOutputs(BeamSearch):
    """Overrides what comes after the steps."""

    def result(self, batch: Beams, row: int) -> SearchResult:
        return super().result(batch, row)


class OtherSteps(BeamSearch):
    """Overrides what several steps as one call replace."""

    def is_done(self, batch: Beams) -> Tensor:
        return super().is_done(batch)


@pytest.mark.parametrize(
    ("search", "fused"), [(BeamSearch, True), (Unchanged, True), (OtherOutputs, True), (OtherSteps, False)]
)
def test_steps_run_as_one_call_unless_a_method_that_this_replaces_is_overridden(
    search: type[BeamSearch], fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    expected = find_queued(BeamSearch(CONFIG), JoiningTable(9), FixedQueue(SENTENCES, 6), VOCAB)
    monkeypatch.setattr(beam_search, "fused_steps", lambda search, batch, max_steps: calls.append(max_steps))
    assert find_queued(search(CONFIG), JoiningTable(9), FixedQueue(SENTENCES, 6), VOCAB) == expected
    assert set(calls) == ({1, sys.maxsize} if fused else set())
