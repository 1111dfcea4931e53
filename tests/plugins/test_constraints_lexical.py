"""Constraints on single outputs, against a list of all outputs.

Shapes: B sentences, K hypotheses per sentence, V symbols.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from harness.search_calls import find_queued
from harness.table_model import JoiningTable, Table
from harness.token_wishes import Wish
from s2s.decoding import BatchConstraint, BeamConfig, ConstraintSet, SampleConfig, SourceSentence, beam_search
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import NoRepeatNgram
from s2s.task import Vocab
from s2s_constraints import lexical as lexical_module
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s_constraints.lexical import LexicalBatchConstraint

EOS, VOCAB = 3, Vocab(src=9, tgt=7)
LIMIT, SYMBOLS = 4, (1, 4, 5, 6)
NO_CONSTRAINT = Wish()
EVERY = [output for n in range(LIMIT + 1) for output in itertools.product(SYMBOLS, repeat=n)]

WISHES = [
    NO_CONSTRAINT,
    Wish(prefix=(4,)),
    Wish(prefix=(5, 5, 1)),
    Wish(phrases=((6,),)),
    Wish(phrases=((4, 5),)),
    Wish(phrases=((4, 5), (5, 4))),
    Wish(phrases=((4, 4, 5),)),
    Wish(phrases=((4, 5), (6,), (1,))),
    Wish(phrases=((4, 5, 4), (5, 4, 6))),
    Wish(phrases=((6,), (6,))),
    Wish(prefix=(4,), phrases=((4, 5), (1,))),
    Wish(prefix=(4, 5, 6, 1)),
]
"""All can be had within the limit, the longest only where phrases overlap"""


def stands(phrase: Sequence[int], output: Sequence[int]) -> bool:
    return any(tuple(output[i : i + len(phrase)]) == tuple(phrase) for i in range(len(output)))


def holds(wish: Wish, output: Sequence[int]) -> bool:
    begins = tuple(output[: len(wish.prefix)]) == tuple(wish.prefix)
    return begins and all(stands(phrase, output) for phrase in wish.phrases)


def sentences_with(wishes: Sequence[Wish], n_tokens: int) -> list[SourceSentence]:
    constraints = (wish.constraint(n_tokens) for wish in wishes)
    return [SourceSentence(i, [4 + i % 5, 5, 6 + i % 3, EOS], one) for i, one in enumerate(constraints)]


def search(
    wishes: Sequence[Wish], beam: int, nbest: int, tokens: int = 10_000, table: type[Table] = Table
) -> list[list[Hypothesis]]:
    sources = sentences_with(wishes, VOCAB.tgt)
    config = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=LIMIT, alpha=0.0)
    model = table(VOCAB.tgt, seed=2, spread=1.0)
    return find_queued(BeamSearch(config), model, FixedQueue(sources, tokens), VOCAB, nbest=nbest)


def test_exactly_the_outputs_that_are_as_asked_are_found() -> None:
    """A beam as wide as the space finds every one that the room allows, and no other.

    Where the room just fits, phrases follow one another: what could be had only by overlapping may be missed.
    """
    for wish, hypotheses in zip(WISHES, search(WISHES, beam=400, nbest=400), strict=True):
        found = {tuple(h.tokens) for h in hypotheses}
        right = {output for output in EVERY if holds(wish, output)}
        assert found <= right
        if sum(map(len, wish.phrases)) < LIMIT and not wish.prefix:
            assert found == right
        assert found


def test_scores_stay_those_of_the_model() -> None:
    free, asked = (
        search([NO_CONSTRAINT, NO_CONSTRAINT], 400, 400)[0],
        search([Wish(phrases=((4, 5),)), NO_CONSTRAINT], 400, 400)[0],
    )
    scores = {tuple(h.tokens): h.score for h in free}
    assert len(asked) > 10
    assert [h.score for h in asked] == pytest.approx([scores[tuple(h.tokens)] for h in asked])


@pytest.mark.parametrize("beam", [1, 4, 8])
def test_a_narrow_beam_does_as_is_asked(beam: int) -> None:
    possible = [wish for wish in WISHES if sum(map(len, wish.phrases)) + len(wish.prefix) <= LIMIT]
    assert len(possible) > 7
    for wish, hypotheses in zip(possible, search(possible, beam, beam), strict=True):
        assert hypotheses
        assert all(holds(wish, h.tokens) for h in hypotheses)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("table", [Table, JoiningTable])
def test_an_output_does_not_depend_on_what_is_asked_of_its_neighbours(beam: int, table: type[Table]) -> None:
    """Nor on how many are in the batch, and when they came into it: after others, or beside them while they run."""
    draw = random.Random(1)
    wishes = [draw.choice(WISHES) for _ in range(30)]
    together = search(wishes, beam, beam)
    for tokens in (12, 40):
        assert search(wishes, beam, beam, tokens, table) == together
    alone = [search([*[NO_CONSTRAINT] * i, wish], beam, beam)[i] for i, wish in enumerate(wishes[:10])]
    assert alone == together[:10]


def test_with_its_share_of_the_beam_a_phrase_comes_where_the_model_likes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without, whoever puts it off is ahead, and it comes when it must."""
    wishes = [Wish(phrases=((6,), (1,))) for _ in range(40)]
    shared = sum(h[0].log_prob for h in search(wishes, 4, 1))
    monkeypatch.setattr(lexical_module, "PhraseAllocation", lambda texts, normalize: None)
    assert shared > sum(h[0].log_prob for h in search(wishes, 4, 1)) + 1


def test_in_a_vocabulary_far_wider_than_the_beam_required_tokens_are_found_as_if_all_tokens_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Phrases of one token: the best few of each hypothesis and its phrases give what all tokens give."""
    vocab, draw = Vocab(src=9, tgt=200), random.Random(5)
    wishes = [Wish(phrases=tuple((t,) for t in draw.sample(range(4, 200), 2))) for _ in range(20)]
    sources = sentences_with(wishes, vocab.tgt)
    search = BeamSearch(BeamConfig(beam=4, max_len_a=0.0, max_len_b=8, alpha=0.0))

    def outputs() -> list[tuple[list[int], float]]:
        queue = FixedQueue(sources, 10_000)
        found = find_queued(search, Table(vocab.tgt, seed=2, spread=2.0), queue, vocab, nbest=1)
        return [(h[0].tokens, h[0].score) for h in found]

    narrow = outputs()
    few = beam_search.top_k_log_probs
    monkeypatch.setattr(beam_search, "top_k_log_probs", lambda logits, n, *rest: few(logits, logits.size(-1), *rest))
    whole = outputs()
    assert [tokens for tokens, _ in narrow] == [tokens for tokens, _ in whole]
    assert [score for _, score in narrow] == pytest.approx([score for _, score in whole])
    assert all(holds(wish, tokens) for wish, (tokens, _) in zip(wishes, narrow, strict=True))


def test_what_cannot_be_had_has_no_output() -> None:
    too_much = Wish(phrases=((4, 5, 6), (6, 5, 4)))
    assert search([too_much, Wish(prefix=(4,) * 5), NO_CONSTRAINT], beam=4, nbest=1)[:2] == [[], []]


def queue_of(lexical: Sequence[Wish]) -> FixedQueue:
    constraints = (one.constraint(VOCAB.tgt) for one in lexical)
    return FixedQueue([SourceSentence(i, [5, 6 + i, EOS], one) for i, one in enumerate(constraints)], 100)


def test_samples_hold_lexical_constraints_too() -> None:
    lexical = [Wish(prefix=(4, 5)), Wish(phrases=((6, 6),))]
    search = Sampling(SampleConfig(max_len_b=6))
    found = find_queued(search, Table(7, spread=1.0), queue_of(lexical), VOCAB, nbest=30)
    for one, hypotheses in zip(lexical, found, strict=True):
        assert len({tuple(h.tokens) for h in hypotheses}) > 5
        assert all(holds(one, h.tokens) for h in hypotheses)


def released_after(
    monkeypatch: pytest.MonkeyPatch, wishes: Sequence[Wish]
) -> tuple[list[list[Hypothesis]], list[bool]]:
    """The outputs, and before each step whether the constraint still holds."""
    constrained = []
    released = lexical_module.LexicalBatchConstraint.released

    def watched(self: LexicalBatchConstraint, states: Any) -> Any:
        constraint, after = released(self, states)
        constrained.append(constraint is self)
        return constraint, after

    monkeypatch.setattr(lexical_module.LexicalBatchConstraint, "released", watched)
    return search(wishes, 4, 4, table=JoiningTable), constrained


@pytest.mark.parametrize("others", [0, 30])
def test_a_batch_is_free_of_constraints_that_all_its_outputs_hold(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """With the same outputs as when they are kept to the end; later sentences are constrained again."""
    wishes = [Wish(prefix=(4,)), Wish(phrases=((5,),)), *[NO_CONSTRAINT] * others, Wish(prefix=(6, 6))]
    outputs, constrained = released_after(monkeypatch, wishes)
    assert True in constrained
    assert False in constrained
    monkeypatch.setattr(lexical_module.LexicalBatchConstraint, "released", lambda self, states: (self, states))
    assert search(wishes, 4, 4, table=JoiningTable) == outputs
    assert search(wishes, 4, 4, 12, JoiningTable) == outputs


def test_where_nothing_is_required_the_constraint_stays_as_it_is() -> None:
    every = BatchConstraint(None, VOCAB, normalize=True)
    assert every.for_sentences([None] * 3) is every


def test_lexical_constraints_go_with_other_constraints() -> None:
    lexical = [Wish(phrases=((4, 5),)), Wish(prefix=(6,))]
    others = ConstraintSet(None, [NoRepeatNgram(1, 7)])
    search = BeamSearch(BeamConfig(beam=400, max_len_a=0.0, max_len_b=LIMIT))
    found = find_queued(search, Table(7), queue_of(lexical), VOCAB, constraint=others, nbest=400)
    for one, hypotheses in zip(lexical, found, strict=True):
        right = {o for o in EVERY if holds(one, o) and len(set(o)) == len(o)}
        assert {tuple(h.tokens) for h in hypotheses} == right
