"""Steps of a constrained search as one call, against single steps that call the constraint."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.packed_models import StepsCall, model, recorded_steps, recorded_stream_calls, source_rows
from harness.search_calls import StepByStep, find_queued
from harness.table_constraint import TableConstraint
from harness.tree_texts import EOS, MARKS, sentences, small
from s2s.decoding import BeamConfig, BeamSearch, ConstraintSet, SourceSentence, StackAutomaton
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import MinLength
from s2s.errors import PluginError
from s2s_constraints.bad_words import BadWords
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_cpu.search_constraint import automaton_of
from s2s_parsing.constraint.automaton import TreeConstraint
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.constraint.tables import BRACKETS, COUNTERS
from s2s_parsing.linear import FORMS
from s2s_testing import VOCAB
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Constraint, Vocab

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[StepsCall]:
    return recorded_steps(monkeypatch)


def outputs(search: BeamSearch, one: Transformer, rows: list[list[int]], vocab: Vocab, constraint: Constraint) -> Any:
    """Of sentences that join and leave a batch which has room for a third of them."""
    queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), sum(map(len, rows)) // 3)
    return find_queued(search, one, queue, vocab, constraint=constraint, nbest=search.config.beam)


@pytest.fixture(params=["a stream", "steps"])
def n_calls(
    request: pytest.FixtureRequest, taken: list[StepsCall], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], int]:
    """The number of calls in C of several steps so far: of streams, or of models that have none."""
    streamed = recorded_stream_calls(monkeypatch)
    if request.param == "a stream":
        return lambda: streamed.count("run")
    monkeypatch.setattr(Transformer, "stream_search", lambda _: None)
    return lambda: sum(call.n_steps > 1 for call in taken)


def automaton(seed: int, n_counters: int, n_labels: int, n_lists: int = 40) -> TableConstraint:
    """Random tables with room for four labels; every eighth list is empty, the others have eos. A counter begins with a
    number, some with what a source of tokens below 8 and the limit add to it."""
    draw = torch.Generator().manual_seed(seed)

    def numbers(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=draw)

    chance = torch.rand(n_lists, VOCAB.tgt, generator=draw)
    chance[:, VOCAB.eos] = 0.0
    lists = [row.lt(i % 8 / 8).nonzero()[:, 0] for i, row in enumerate(chance)]
    begin = torch.tensor([0, *map(len, lists)]).cumsum(0)
    tables = StackAutomaton(
        keep=numbers(0, 2, VOCAB.tgt, n_counters),
        add=numbers(-2, 3, VOCAB.tgt, n_counters),
        bounds=torch.stack([torch.full((n_counters,), -2), torch.full((n_counters,), 4)]),
        label=numbers(0, n_labels, VOCAB.tgt),
        allowed=numbers(0, n_lists, n_labels, 2**n_counters),
        begin=begin,
        tokens=torch.cat(lists),
    )
    tables.bounds[0, -1] = 0
    first = torch.cat(
        [numbers(-1, 2, n_counters, 2), numbers(0, 3, n_counters, 1), numbers(1, 4, n_counters, 1)], dim=1
    )
    first = torch.cat([first, torch.full((n_counters, 1), -9)], dim=1)
    first[-1, :3] = 0
    first[0, -1] = 0
    return TableConstraint(tables._replace(counted=torch.arange(4, 8), first=first))


@pytest.mark.parametrize(("beam", "stop"), [(1, "best"), (4, "first_k"), (17, "best")])
@pytest.mark.parametrize(("n_counters", "n_labels"), [(1, 1), (4, 1), (1, 5), (6, 3)])
def test_any_automaton_has_the_outputs_of_its_meaning(
    n_counters: int, n_labels: int, beam: int, stop: Any, n_calls: Callable[[], int]
) -> None:
    rows = source_rows(5)
    config = BeamConfig(beam=beam, stop=stop, max_len_a=0.0, max_len_b=7)
    n_outputs = 0
    for seed in range(3):
        given = model(d_model=16), rows, VOCAB, automaton(seed, n_counters, n_labels)
        together, before = outputs(BeamSearch(config), *given), n_calls()
        assert together == outputs(StepByStep(config), *given)
        assert 0 < n_calls() == before
        n_outputs += sum(map(len, together))
    assert n_outputs


def test_states_that_a_constraint_has_returned_stay_as_they_are(
    taken: list[StepsCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint, one = automaton(1, 6, 3), model(d_model=16)
    first = constraint.start(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool), torch.tensor([9]))
    monkeypatch.setattr(constraint, "start", lambda *_: first)
    expected = first.clone()
    monkeypatch.setattr(one, "stream_search", lambda: None)  # a stream calls no `start`
    outputs(BeamSearch(BeamConfig(beam=1)), one, [[4, VOCAB.eos]], VOCAB, constraint)
    assert taken
    assert first.equal(expected)


def sentences_of_words(vocab: Vocab) -> list[list[int]]:
    """Rows of 1 to 9 words, one of none."""
    return [[4] * n + [vocab.eos] for n in (3, 9, 1, 0, 5, 2, 9, 7)]


@pytest.mark.parametrize(("beam", "max_len"), [(1, 40), (4, 9), (21, 14)])
@pytest.mark.parametrize("name", FORMS)
def test_trees_are_those_of_single_steps_and_of_any_batch(
    name: str, max_len: int, beam: int, n_calls: Callable[[], int]
) -> None:
    written = small(FORMS[name]())
    one, rows = model(vocab=written.vocab, d_model=16, share_embeddings="none"), sentences_of_words(written.vocab)
    config = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=max_len)
    constraint = written.constraint(6, 3)
    together = outputs(BeamSearch(config), one, rows, written.vocab, constraint)
    assert n_calls() or beam > written.vocab.tgt  # with too few tokens to fill the beam there is no stream
    assert together == outputs(StepByStep(config), one, rows, written.vocab, constraint)
    assert together == [outputs(BeamSearch(config), one, [row], written.vocab, constraint)[0] for row in rows]
    assert [len(found) > 0 for found in together] == [0 < len(row) - 1 <= max_len for row in rows]
    for row, hypotheses in zip(rows, together, strict=True):
        for hypothesis in hypotheses:
            written.tree(hypothesis.tokens, len(row) - 1)  # raises if it is none


@pytest.mark.parametrize("name", FORMS)
def test_the_tables_of_a_tree_constraint_mean_what_it_computes(name: str) -> None:
    written = small(FORMS[name]())
    own = TreeConstraint(written.actions, MARKS, Bounds(4, 2), eos=written.vocab.eos)
    src, draw = torch.tensor([[4] * 5 + [written.vocab.eos]]), torch.Generator().manual_seed(1)
    state = own.start(src, src == written.vocab.pad, torch.tensor([30])).expand(-1, 60, -1)
    tables = own.automaton()
    assert tables is not None
    slow = TableConstraint(tables)
    state = state[..., : COUNTERS + slow.n_slots]  # the dead end's slot is not needed
    for _ in range(30):
        allowed = own.allowed(state)
        assert allowed.equal(slow.allowed(state))
        weights = allowed[0] + 1e-3  # now and then one that is not allowed: the dead come along
        token = torch.multinomial(weights, 1, generator=draw).T
        assert own.advance(state, token).equal(slow.advance(state, token))
        state = own.advance(state, token)


@pytest.mark.parametrize("name", FORMS)
def test_trees_begin_with_what_the_tables_say(name: str) -> None:
    """Of every sentence with words for which the limit leaves room."""
    written = small(FORMS[name]())
    own = written.constraint(6, 3)
    found = automaton_of(own, written.vocab.tgt)
    assert found is not None
    for n_words, limit in itertools.product(range(9), (1, 2, 7, 8, 40)):
        src, pad = sentences([n_words])
        state = found.start(src[0].tolist(), limit)
        assert (state is None) == (not 0 < n_words <= limit)
        assert state is None or state == own.start(src, pad, torch.tensor([limit]))[0, 0, : found.width].tolist()


class Endless(TreeConstraint):
    """Trees alone, but none may end."""

    def allowed(self, state: Tensor) -> Tensor:
        allowed = super().allowed(state)
        allowed[..., EOS] = False
        return allowed


def test_a_class_that_allows_something_else_is_called_instead(taken: list[StepsCall]) -> None:
    written = small(FORMS["brackets"]())
    one = model(vocab=written.vocab, d_model=16, share_embeddings="none")
    constraint = Endless(written.actions, MARKS, Bounds(6, 3), eos=EOS)
    rows = sentences_of_words(written.vocab)
    assert not any(outputs(BeamSearch(BeamConfig(beam=4)), one, rows, written.vocab, constraint))
    assert {call.n_steps for call in taken} == {1}


class OneBracket(TreeConstraint):
    """Trees in which at most one bracket is opened."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        state = super().start(src, pad, limit)
        state[..., BRACKETS] = state[..., BRACKETS].clamp(max=1)
        return state


@pytest.mark.usefixtures("n_calls")
def test_a_class_that_begins_in_another_way_is_called_for_it() -> None:
    written = small(FORMS["brackets"]())
    one, rows = model(vocab=written.vocab, d_model=16, share_embeddings="none"), sentences_of_words(written.vocab)
    constraint = OneBracket(written.actions, MARKS, Bounds(6, 3), eos=EOS)
    config, vocab = BeamConfig(beam=4, max_len_a=0.0, max_len_b=14), written.vocab
    found = outputs(BeamSearch(config), one, rows, vocab, constraint)
    assert found == outputs(StepByStep(config), one, rows, vocab, constraint)
    assert found != outputs(BeamSearch(config), one, rows, vocab, written.constraint(6, 3))
    tables = constraint.automaton()
    assert tables is not None, "steps in C"
    assert tables is constraint.automaton(), "checked once"


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_a_constraint_that_has_no_tables_is_called_between_steps(beam: int, taken: list[StepsCall]) -> None:
    rows = source_rows(7)
    config = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=9)
    words = [[i] for i in range(4, VOCAB.tgt, 2)] + [[5, 7], [9, 11, 5]]
    constraint = ConstraintSet(None, [MinLength(6, VOCAB.tgt, VOCAB.eos), BadWords(words, VOCAB.tgt)])
    given = model(d_model=16), rows, VOCAB, constraint
    together = outputs(BeamSearch(config), *given)
    assert {call.n_steps for call in taken} == {1}
    taken.clear()
    assert together == outputs(StepByStep(config), *given)
    assert not taken
    assert all(len(h.tokens) >= 6 and all(t % 2 for t in h.tokens) for found in together for h in found)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"keep": torch.ones(3, 6, dtype=torch.long)}, "keep"),
        ({"label": torch.zeros(VOCAB.tgt, dtype=torch.int32)}, "label"),
        ({"bounds": torch.full((2, 6), 9), "first": None}, "stack of up to 9 labels needs room for 10, got 5"),
        ({"allowed": torch.zeros(64, 3, dtype=torch.long).T}, "allowed"),
        ({"allowed": torch.full((3, 64), 40)}, "allowed of an automaton must be from 0 to 39"),
        ({"label": torch.full((VOCAB.tgt,), 3)}, "label of an automaton must be from 0 to 2"),
        ({"tokens": torch.full((1,), VOCAB.tgt), "begin": torch.arange(41).clamp(max=1)}, "tokens of an automaton"),
        ({"begin": torch.arange(41).flip(0)}, "lists must begin one after the other"),
        ({"bounds": torch.tensor([[-1] * 6, [4] * 6])}, "no height below 0"),
        ({"first": torch.ones(5, 5, dtype=torch.long)}, r"first of an automaton must be contiguous int64 \(6, 5\)"),
        ({"first": torch.zeros(6, 5, dtype=torch.long)}, "divide by 1 or more"),
        ({"first": torch.ones(6, 5, dtype=torch.long)}, "begin with an empty stack"),
    ],
)
def test_tables_beside_which_c_would_read_are_refused(
    changed: dict[str, Tensor | None], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint, rows = automaton(1, 6, 3), [[4, VOCAB.eos]]
    first = constraint.start(torch.zeros(1, 2), torch.zeros(1, 2).bool(), torch.tensor([9]))
    monkeypatch.setattr(constraint, "start", lambda *_: first)
    constraint.tables = constraint.tables._replace(**changed)
    with pytest.raises(ValueError, match=error):
        outputs(BeamSearch(BeamConfig()), model(d_model=16), rows, VOCAB, constraint)


@pytest.mark.parametrize(
    "allowed", [torch.ones(1, 1, VOCAB.tgt), torch.ones(1, 1, VOCAB.tgt - 1).bool()], ids=["numbers", "too few"]
)
def test_a_mask_that_is_none_is_refused(allowed: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = ConstraintSet(None, [BadWords([[5]], VOCAB.tgt)])
    monkeypatch.setattr(constraint, "allowed", lambda _state: allowed)
    with pytest.raises(PluginError, match=rf"ConstraintSet.allowed: expected torch.bool \[B, K, {VOCAB.tgt}\], got"):
        outputs(BeamSearch(BeamConfig()), model(d_model=16), [[4, VOCAB.eos]] * 3, VOCAB, constraint)
