"""Outputs that users forbid, against a search with lists that checks whole outputs.

Shapes: B sentences, K hypotheses per sentence, V symbols.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.capital_tasks import Capitals
from harness.search_calls import find
from harness.shipped_plugins import generate_config, shipped
from harness.table_model import Table
from s2s.config import GenerateConfig
from s2s.decoding import BeamConfig, GreedyConfig, SampleConfig
from s2s.decoding.beam_search import BeamSearch, greedy
from s2s.decoding.constraints import ConstraintSet
from s2s.decoding.token_constraints import MinLength, NoRepeatNgram
from s2s.errors import ConfigError, PluginError
from s2s.generation.inputs import output_constraint, registered_constraints
from s2s.task import Encoded, Example, Vocab
from s2s_constraints.bad_words import BadWords
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.task import Constraint

EOS, VOCAB = 3, Vocab(src=9, tgt=7)
LIMIT, SYMBOLS = 4, (1, 4, 5, 6)

table = partial(Table, VOCAB.tgt, seed=2, spread=1.0)


class FourFirst:
    """A task's constraint whose states are as wide as the limit: outputs begin with 4 and may then be anything."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(src.size(0), 1, int(limit.max()), dtype=torch.long)

    def allowed(self, state: Tensor) -> Tensor:
        return (state[..., :1] > 0) | (torch.arange(VOCAB.tgt) == 4)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state + 1


def grams(output: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(output[i : i + n]) for i in range(len(output) - n + 1)]


def none_twice(n: int) -> Callable[[Sequence[int]], bool]:
    return lambda output: len(set(grams(output, n))) == len(grams(output, n))


def none_of(*sequences: tuple[int, ...]) -> Callable[[Sequence[int]], bool]:
    return lambda output: not any(sequence in grams(output, len(sequence)) for sequence in sequences)


CASES: list[tuple[Constraint, Callable[[Sequence[int]], bool]]] = [
    (MinLength(2, 7, EOS), lambda output: len(output) >= 2),
    (MinLength(9, 7, EOS), lambda output: len(output) == LIMIT),
    (NoRepeatNgram(1, 7), none_twice(1)),
    (NoRepeatNgram(2, 7), none_twice(2)),
    (NoRepeatNgram(3, 7), none_twice(3)),
    (BadWords([[4]], 7), none_of((4,))),
    (BadWords([[4, 5], [6], [5, 5, 1]], 7), none_of((4, 5), (6,), (5, 5, 1))),
    (
        ConstraintSet(None, [MinLength(3, 7, EOS), BadWords([[6, 6]], 7)]),
        lambda output: len(output) >= 3 and none_of((6, 6))(output),
    ),
    (
        ConstraintSet(FourFirst(), [NoRepeatNgram(2, 7), MinLength(1, 7, EOS)]),
        lambda output: output[:1] == (4,) and none_twice(2)(output),
    ),
]


@pytest.mark.parametrize(("constraint", "holds"), CASES, ids=lambda x: type(x).__name__)
def test_exactly_the_outputs_for_which_it_holds_are_found(
    constraint: Constraint, holds: Callable[[Sequence[int]], bool]
) -> None:
    """A beam as wide as the space finds every output that is allowed, and no other."""
    config = BeamConfig(beam=400, max_len_a=0.0, max_len_b=LIMIT)
    src = torch.tensor([[5, 6, EOS], [7, EOS, 0]])
    found = find(BeamSearch(config), table(), src, src == 0, VOCAB, constraint, nbest=400)
    every = [o for n in range(LIMIT + 1) for o in itertools.product(SYMBOLS, repeat=n)]
    for hypotheses in found:
        assert {tuple(h.tokens) for h in hypotheses} == set(filter(holds, every))


def test_what_is_not_forbidden_keeps_its_score() -> None:
    src = torch.tensor([[5, 6, EOS]])
    search = BeamSearch(BeamConfig(beam=400, max_len_a=0.0, max_len_b=LIMIT))
    free, bound = (
        find(search, table(), src, src == 0, VOCAB, constraint, nbest=400)[0]
        for constraint in (None, NoRepeatNgram(2, 7))
    )
    scores = {tuple(h.tokens): h.score for h in free}
    assert [h.score for h in bound] == pytest.approx([scores[tuple(h.tokens)] for h in bound])


def test_samples_keep_it_too() -> None:
    src = torch.tensor([[5, 6, EOS]])
    constraint = ConstraintSet(FourFirst(), [NoRepeatNgram(2, 7)])
    (found,) = find(Sampling(SampleConfig(max_len_b=20)), table(), src, src == 0, VOCAB, constraint, nbest=50)
    assert len({tuple(h.tokens) for h in found}) > 10
    assert all(h.tokens[0] == 4 and none_twice(2)(h.tokens) for h in found)


@pytest.mark.parametrize("of", [torch.long, torch.float], ids=["whole numbers", "fractions"])
@pytest.mark.parametrize("search", [BeamSearch(BeamConfig()), Sampling(SampleConfig())], ids=["beam", "sample"])
@pytest.mark.parametrize("beside", [[], [MinLength(1, 7, EOS)]], ids=["alone", "beside another"])
def test_allowed_tokens_of_another_type_are_refused(beside: list[Any], search: Any, of: torch.dtype) -> None:
    """Functions in C read a byte for every token, so that each number would be several tokens."""

    class Numbers(FourFirst):
        def allowed(self, state: Tensor) -> Tensor:
            return super().allowed(state).to(of)

    constraint = ConstraintSet(Numbers(), beside) if beside else Numbers()
    src = torch.tensor([[5, 6, EOS]])
    with pytest.raises(PluginError, match=r"allowed: expected torch.bool \[B, K, [7V]\], got"):
        find(search, table(), src, src == 0, VOCAB, constraint)


class Wide(MinLength):
    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return super().start(src, pad, limit).expand(-1, -1, 2)


class Growing(MinLength):
    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return torch.cat([state, state], dim=-1)


class Fractions(MinLength):
    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return super().start(src, pad, limit).float()


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (Wide, r"Wide: its states \[B, K, 2\] have another width than its width=1"),
        (Growing, r"Growing: its states \[B, K, 2\] have another width than its width=1"),
        (Fractions, "Fractions: its states are torch.float32, and those beside them torch.int64"),
    ],
)
def test_states_that_would_be_taken_for_those_of_another_constraint_are_refused(
    other: type[MinLength], error: str
) -> None:
    src = torch.tensor([[5, 6, EOS]])
    constraint = ConstraintSet(None, [MinLength(1, 7, EOS), other(2, 7, EOS)])
    with pytest.raises(PluginError, match=error):
        find(BeamSearch(BeamConfig()), table(), src, src == 0, VOCAB, constraint)


class Letters(Capitals):
    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([pair.src, pair.tgt])) for pair in examples]


def test_options_become_constraints_beside_the_tasks_own() -> None:
    assert output_constraint(GenerateConfig(), Letters(), registered_constraints(None)) is None
    asked = generate_config(bad_words=["ab", "c"])
    chosen = output_constraint(asked, Letters(), registered_constraints(shipped()))
    assert isinstance(chosen, ConstraintSet)
    (ban,) = chosen.others
    assert isinstance(ban, BadWords)
    assert ban.sequences == [[4, 5], [6]]


@pytest.mark.parametrize("own", [FourFirst(), ConstraintSet(FourFirst(), [BadWords([[6]], 7)]), None])
@pytest.mark.parametrize("config", [BeamConfig, GreedyConfig, SampleConfig])
def test_options_of_a_search_are_constraints_behind_those_of_its_request(own: Any, config: Any) -> None:
    src = torch.tensor([[i, j, EOS] for i in (5, 6, 7) for j in (4, 6, 8)])
    limits = {"max_len_a": 0.0, "max_len_b": LIMIT}
    build: Any = {BeamConfig: BeamSearch, GreedyConfig: greedy, SampleConfig: Sampling}[config]
    rules = [MinLength(4, 7, EOS), NoRepeatNgram(2, 7)]
    whole = ConstraintSet(FourFirst(), [BadWords([[6]], 7), *rules]) if isinstance(own, ConstraintSet) else None
    expected = find(build(config(**limits)), table(), src, src == 0, VOCAB, whole or ConstraintSet(own, rules))
    found = find(build(config(**limits, min_len=4, no_repeat_ngram_size=2)), table(), src, src == 0, VOCAB, own)
    assert found == expected
    assert found != find(build(config(**limits)), table(), src, src == 0, VOCAB, own)


@pytest.mark.parametrize("own", [FourFirst(), None], ids=["own", "none"])
def test_without_options_the_tasks_own_constraint_is_left_as_it_is(own: Any) -> None:
    task = Letters()
    task.constraint = lambda: own  # type: ignore[method-assign]
    assert output_constraint(GenerateConfig(), task, []) is own
    assert output_constraint(GenerateConfig(constrained=False), task, []) is None


def test_a_text_without_symbols_cannot_be_banned() -> None:
    with pytest.raises(ConfigError, match=r"bad_words: '\?' has no tokens"):
        output_constraint(generate_config(bad_words=["?"]), Letters(), registered_constraints(shipped()))


def test_a_text_with_unknown_symbols_cannot_be_banned() -> None:
    task = Letters()
    task.vocab = replace(task.vocab, unk=4)
    with pytest.raises(ConfigError, match=r"bad_words: 'ba' has symbols that are not in the vocabulary of task="):
        output_constraint(generate_config(bad_words=["b", "ba"]), task, registered_constraints(shipped()))
