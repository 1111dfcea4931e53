"""Constraints on single outputs, against a list of all outputs.

Shapes: B sentences, K hypotheses per sentence, V symbols.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
import torch

from harness.search_calls import find_queued
from harness.table_model import JoiningTable, Table
from s2s.decoding import BatchConstraint, BeamConfig, ConstraintSet, SourceSentence, beam_search
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.task import Vocab
from s2s_constraints import lexical as lexical_module
from s2s_constraints.lexical import LexicalBatchConstraint, LexicalConstraint, LexicalSizes
from s2s_constraints.tokens import NoRepeatNgram
from s2s_search import SampleConfig
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s.task import Constraint

EOS, VOCAB = 3, Vocab(src=9, tgt=7)
LIMIT, SYMBOLS = 4, (1, 4, 5, 6)
NO_CONSTRAINT = LexicalConstraint()
EVERY = [output for n in range(LIMIT + 1) for output in itertools.product(SYMBOLS, repeat=n)]

WISHES = [
    NO_CONSTRAINT,
    LexicalConstraint(prefix=(4,)),
    LexicalConstraint(prefix=(5, 5, 1)),
    LexicalConstraint(phrases=((6,),)),
    LexicalConstraint(phrases=((4, 5),)),
    LexicalConstraint(phrases=((4, 5), (5, 4))),
    LexicalConstraint(phrases=((4, 4, 5),)),
    LexicalConstraint(phrases=((4, 5), (6,), (1,))),
    LexicalConstraint(phrases=((4, 5, 4), (5, 4, 6))),
    LexicalConstraint(phrases=((6,), (6,))),
    LexicalConstraint(prefix=(4,), phrases=((4, 5), (1,))),
    LexicalConstraint(prefix=(4, 5, 6, 1)),
]
"""All can be had within the limit, the longest only where phrases overlap"""


def stands(phrase: Sequence[int], output: Sequence[int]) -> bool:
    return any(tuple(output[i : i + len(phrase)]) == tuple(phrase) for i in range(len(output)))


def holds(wish: LexicalConstraint, output: Sequence[int]) -> bool:
    begins = tuple(output[: len(wish.prefix)]) == tuple(wish.prefix)
    return begins and all(stands(phrase, output) for phrase in wish.phrases)


def search(
    wishes: Sequence[LexicalConstraint], beam: int, nbest: int, tokens: int = 10_000, table: type[Table] = Table
) -> list[list[Hypothesis]]:
    sources = [SourceSentence(i, [4 + i % 5, 5, 6 + i % 3, EOS], wish) for i, wish in enumerate(wishes)]
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
        search([LexicalConstraint(phrases=((4, 5),)), NO_CONSTRAINT], 400, 400)[0],
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
    wishes = [LexicalConstraint(phrases=((6,), (1,))) for _ in range(40)]
    shared = sum(h[0].log_prob for h in search(wishes, 4, 1))
    monkeypatch.setattr(lexical_module, "_allocation", lambda automaton, normalize: None)
    assert shared > sum(h[0].log_prob for h in search(wishes, 4, 1)) + 1


def test_in_a_vocabulary_far_wider_than_the_beam_required_tokens_are_found_as_if_all_tokens_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Phrases of one token: the best few of each hypothesis and its phrases give what all tokens give."""
    vocab, draw = Vocab(src=9, tgt=200), random.Random(5)
    wishes = [LexicalConstraint(phrases=tuple((t,) for t in draw.sample(range(4, 200), 2))) for _ in range(20)]
    sources = [SourceSentence(i, [4 + i % 5, 5, 6 + i % 3, EOS], wish) for i, wish in enumerate(wishes)]
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
    too_much = LexicalConstraint(phrases=((4, 5, 6), (6, 5, 4)))
    assert search([too_much, LexicalConstraint(prefix=(4,) * 5), NO_CONSTRAINT], beam=4, nbest=1)[:2] == [[], []]


def queue_of(lexical: Sequence[LexicalConstraint]) -> FixedQueue:
    return FixedQueue([SourceSentence(i, [5, 6 + i, EOS], one) for i, one in enumerate(lexical)], 100)


def test_samples_hold_lexical_constraints_too() -> None:
    lexical = [LexicalConstraint(prefix=(4, 5)), LexicalConstraint(phrases=((6, 6),))]
    search = Sampling(SampleConfig(max_len_b=6))
    found = find_queued(search, Table(7, spread=1.0), queue_of(lexical), VOCAB, nbest=30)
    for one, hypotheses in zip(lexical, found, strict=True):
        assert len({tuple(h.tokens) for h in hypotheses}) > 5
        assert all(holds(one, h.tokens) for h in hypotheses)


@pytest.mark.parametrize("others", [None, ConstraintSet(None, [NoRepeatNgram(1, 7)])], ids=["alone", "beside another"])
def test_where_nothing_is_asked_the_constraint_stays_as_it_is(others: Constraint | None) -> None:
    every = BatchConstraint(others, VOCAB, normalize=True)
    assert every.for_sentences([None] * 3) is every
    assert every.for_sentences([NO_CONSTRAINT] * 3).automaton is others


def test_lexical_constraints_go_with_other_constraints() -> None:
    lexical = [LexicalConstraint(phrases=((4, 5),)), LexicalConstraint(prefix=(6,))]
    others = ConstraintSet(None, [NoRepeatNgram(1, 7)])
    search = BeamSearch(BeamConfig(beam=400, max_len_a=0.0, max_len_b=LIMIT))
    found = find_queued(search, Table(7), queue_of(lexical), VOCAB, constraint=others, nbest=400)
    for one, hypotheses in zip(lexical, found, strict=True):
        right = {o for o in EVERY if holds(one, o) and len(set(o)) == len(o)}
        assert {tuple(h.tokens) for h in hypotheses} == right


SIZES = [LexicalSizes(), LexicalSizes(2), LexicalSizes(0, 1, 2), LexicalSizes(3, 2, 2), LexicalSizes(3, 2, 4)]


@pytest.mark.parametrize(("old", "new"), list(itertools.combinations(SIZES, 2)))
@pytest.mark.parametrize("others", [None, ConstraintSet(None, [NoRepeatNgram(2, 7)])], ids=["alone", "beside another"])
def test_a_widened_state_allows_what_a_state_of_that_width_does(
    old: LexicalSizes, new: LexicalSizes, others: Constraint | None
) -> None:
    """Step by step on random outputs: states made narrow and widened, against states made wide."""
    new, draw = old.union(new), random.Random(1)
    fits = [one for one in WISHES if LexicalSizes.of([one]).union(old) == old]
    lexical = [draw.choice(fits) for _ in range(12)]
    src, limit = torch.full((12, 1), EOS), torch.full((12,), 20)
    every = BatchConstraint(others, VOCAB, normalize=True)
    narrow, wide = (LexicalBatchConstraint(every, sizes, lexical) for sizes in (old, new))
    states, expected = (constraint.start(src, src == 0, limit) for constraint in (narrow, wide))
    for _ in range(3):
        token = torch.tensor([[draw.choice(SYMBOLS)] for _ in range(12)])
        expected, states = wide.advance(expected, token), narrow.advance(states, token)
    found = wide.widen(states, narrow, (12, 1), src.device)
    assert found is not None
    assert expected is not None
    assert found.shape == expected.shape
    for _ in range(6):
        allowed = wide.allowed(found, VOCAB.tgt)
        assert allowed is not None
        assert torch.equal(allowed, wide.allowed(expected, VOCAB.tgt))
        token = torch.tensor([[draw.choice(SYMBOLS)] for _ in range(12)])
        found, expected = wide.advance(found, token), wide.advance(expected, token)
