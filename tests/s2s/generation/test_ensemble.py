"""Several models as one, against enumeration with the probabilities of the members, each run separately.

Shapes: B sentences, T target length, V symbols.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.recurrent_model import Recurrent
from harness.reference_operators import use_references
from harness.reference_search import EOS, assert_same, batch_of, next_log_probs, slow_beam, sources
from harness.search_calls import find, find_queued
from harness.table_model import Table
from harness.token_wishes import Wish
from s2s.decoding import BeamConfig, SampleConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.errors import ConfigError
from s2s.generation.ensemble import Ensemble
from s2s.generation.shallow_fusion import ShallowFusion
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_search.sampling import Sampling
from s2s_testing import assert_causal, assert_state_joins, assert_state_reorders, assert_step_is_decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.model import Seq2Seq

pytestmark = pytest.mark.usefixtures("plugin_operators")

VOCAB = Vocab(src=12, tgt=7)
NO_SOURCE = [4, EOS]
CONFIG = BeamConfig(beam=3, max_len_a=0.5, max_len_b=3)


def transformer(n_symbols: int) -> Seq2Seq:
    entry = load_plugins().registry.get("arch", "transformer")
    sizes: dict[str, Any] = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2}
    torch.manual_seed(0)
    vocab = Vocab(src=n_symbols, tgt=n_symbols, joint=True)
    model: Seq2Seq = entry.build(entry.config(name="transformer", **sizes), vocab)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


MIXED = {
    "two tables": lambda: [Table(VOCAB.tgt, seed=1), Table(VOCAB.tgt, seed=2)],
    "three": lambda: [Table(VOCAB.tgt, seed=1), Recurrent(12), transformer(12)],
}


def members_of(kind: str) -> list[Seq2Seq]:
    members = MIXED[kind]()
    if kind == "three":
        members[0] = Table(12, seed=1)
    return members


def mean_of(models: Sequence[Seq2Seq], source: list[int]) -> Any:
    """Logarithms of mean probabilities, in double precision and with Python's own functions."""
    each = [next_log_probs(model, source) for model in models]

    def of(prefix: list[int]) -> list[float]:
        rows = [own(prefix) for own in each]
        return [math.log(sum(math.exp(p) for p in column) / len(rows)) for column in zip(*rows, strict=True)]

    return of


def sum_of(model: Seq2Seq, language_model: Seq2Seq, weight: float, source: list[int]) -> Any:
    """The sum that shallow fusion maximises; the language model's source is always the same."""
    first, second = next_log_probs(model, source), next_log_probs(language_model, NO_SOURCE[:-1])
    return lambda prefix: [p + weight * q for p, q in zip(first(prefix), second(prefix), strict=True)]


@pytest.mark.parametrize("kind", MIXED)
@pytest.mark.parametrize("beam", [1, 4])
def test_an_ensemble_is_searched_by_the_mean_of_probabilities(kind: str, beam: int) -> None:
    members, config = members_of(kind), BeamConfig(beam=beam, max_len_a=0.5, max_len_b=3)
    vocab = Vocab(src=12, tgt=12 if kind == "three" else 7)
    inputs = sources(6, 6, 12)
    found = find(BeamSearch(config), Ensemble(members), *batch_of(inputs), vocab, nbest=beam)
    for hypotheses, source in zip(found, inputs, strict=True):
        assert_same(hypotheses, slow_beam(mean_of(members, source), source, config, beam))


def every_output(of: Any, config: BeamConfig, limit: int) -> list[tuple[float, list[int]]]:
    found = []
    for length in range(limit + 1):
        for output in itertools.product([1, 4, 5, 6], repeat=length):
            tokens = [*output, EOS]
            score = sum(of(tokens[:i])[token] for i, token in enumerate(tokens))
            found.append((score / ((5 + len(tokens)) / 6) ** config.alpha, tokens[:-1]))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0])
def test_fusion_finds_the_best_sums_of_all_outputs(weight: float) -> None:
    """With a beam as wide as the space; a sum that is normalised symbol by symbol would give another order."""
    config = BeamConfig(beam=85, max_len_a=0.0, max_len_b=3)
    model, language_model = Table(VOCAB.tgt, seed=1), Table(VOCAB.tgt, seed=2)
    inputs = [[5, 6], [7]]
    fused = ShallowFusion(model, language_model, weight, NO_SOURCE)
    found = find(BeamSearch(config), fused, *batch_of(inputs), VOCAB, nbest=85)
    for hypotheses, source in zip(found, inputs, strict=True):
        expected = every_output(sum_of(model, language_model, weight, source), config, limit=3)
        assert_same(hypotheses, expected)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(sum(h.token_log_probs), rel=1e-5)


def test_of_weight_nothing_is_the_model_alone() -> None:
    model, inputs = transformer(12), sources(6, 6, 12)
    fused = ShallowFusion(model, Recurrent(12), 0.0, NO_SOURCE)
    vocab = Vocab(src=12, tgt=12)
    alone, together = (find(BeamSearch(CONFIG), m, *batch_of(inputs), vocab, nbest=3) for m in (model, fused))
    for first, second in zip(alone, together, strict=True):
        assert_same(second, [(h.score, h.tokens) for h in first])


def test_an_ensemble_of_one_model_with_itself_is_that_model() -> None:
    model, inputs, vocab = transformer(12), sources(6, 6, 12), Vocab(src=12, tgt=12)
    alone, together = (
        find(BeamSearch(CONFIG), m, *batch_of(inputs), vocab, nbest=3) for m in (model, Ensemble([model] * 3))
    )
    for first, second in zip(alone, together, strict=True):
        assert_same(second, [(h.score, h.tokens) for h in first])


def test_an_ensemble_keeps_the_contract_of_an_architecture() -> None:
    """Its state reorders, sheds and lets in sentences with those of its members, whatever they are."""
    joining = Ensemble([transformer(19), transformer(19)])
    mixed = Ensemble([Recurrent(19), transformer(19)])
    vocab = Vocab(src=19, tgt=19)
    for model in (joining, mixed):
        assert_causal(model, vocab)
        assert_step_is_decode(model, vocab)
        assert_state_reorders(model, vocab)
        assert_state_joins(model, vocab)
    batch = batch_of([[5, 6]])
    assert joining.start(joining.encode(*batch)).supports_join
    assert not mixed.start(mixed.encode(*batch)).supports_join


def two(kind: str) -> Seq2Seq:
    members = [transformer(19), transformer(19)]
    with torch.no_grad():
        for parameter in members[1].parameters():
            parameter.neg_()
    return Ensemble(members) if kind == "ensemble" else ShallowFusion(*members, 0.5, NO_SOURCE)


@pytest.mark.parametrize("kind", ["ensemble", "fused"])
@pytest.mark.parametrize("native", [True, False])
def test_an_output_does_not_depend_on_its_batch(kind: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, together, and let in one after the other as others leave."""
    if not native:
        use_references(monkeypatch)
    model, inputs, vocab = two(kind), sources(10, 14, 19), Vocab(src=19, tgt=19)
    search = BeamSearch(BeamConfig(beam=4, max_len_b=10))
    together = [row[0].tokens for row in find(search, model, *batch_of(inputs), vocab)]
    assert together == [find(search, model, *batch_of([one]), vocab)[0][0].tokens for one in inputs]
    queue = FixedQueue((SourceSentence(i, [*one, EOS]) for i, one in enumerate(inputs)), n_tokens=30)
    streamed = [row[0].tokens for row in find_queued(search, model, queue, vocab)]
    assert streamed == together


CPU = torch.device("cpu")


def test_samples_of_a_fused_model_come_as_often_as_the_sums_say() -> None:
    """In the proportion of exp(sum), symbol by symbol; the score that is told is the sum."""
    model, language_model = Table(VOCAB.tgt, seed=1), Table(VOCAB.tgt, seed=2)
    fused, n = ShallowFusion(model, language_model, 0.7, NO_SOURCE), 4000
    (found,) = find(Sampling(SampleConfig(max_len_a=0.0, max_len_b=1)), fused, *batch_of([[5, 6]]), VOCAB, nbest=n)
    sums = sum_of(model, language_model, 0.7, [5, 6])([])
    whole = sum(math.exp(sums[s]) for s in (1, 3, 4, 5, 6))
    for symbol in (1, 4, 5, 6):
        chance = math.exp(sums[symbol]) / whole
        often = sum(h.tokens == [symbol] for h in found) / n
        assert often == pytest.approx(chance, abs=5 * math.sqrt(chance * (1 - chance) / n))
        told = {h.token_log_probs[0] for h in found if h.tokens == [symbol]}
        assert all(p == pytest.approx(sums[symbol], rel=1e-4) for p in told)


def test_phrases_are_scored_by_the_sum_too() -> None:
    model, language_model = Table(VOCAB.tgt, seed=1), Table(VOCAB.tgt, seed=2)
    fused = ShallowFusion(model, language_model, 0.5, NO_SOURCE)
    search = BeamSearch(BeamConfig(beam=2, max_len_a=0.0, max_len_b=4))
    queue = FixedQueue([SourceSentence(0, [5, EOS], Wish(phrases=[[6, 4]]).constraint(VOCAB.tgt))], n_tokens=10)
    (found,) = find_queued(search, fused, queue, VOCAB, nbest=2)
    of = sum_of(model, language_model, 0.5, [5])
    for h in found:
        assert (6, 4) in itertools.pairwise(h.tokens)
        assert h.log_prob == pytest.approx(sum(of(h.tokens[:i])[t] for i, t in enumerate([*h.tokens, EOS])), rel=1e-4)


def test_the_shortest_limit_of_the_members_holds() -> None:
    first, second = Table(7), Table(7)
    assert Ensemble([first, second]).max_len is None
    first.max_len, second.max_len = 9, 5
    assert Ensemble([first, second]).max_len == 5
    second.max_len = None
    assert Ensemble([first, second]).max_len == 9


def test_the_mean_of_very_small_probabilities_is_exact() -> None:
    """What all members hold for nearly impossible may still be asked for: a prefix, a word that must appear."""
    scores = [torch.tensor([[0.0, -95.0, -130.0, -torch.inf]]), torch.tensor([[-1.0, -94.0, -torch.inf, -torch.inf]])]
    expected = torch.stack([x.double() for x in scores]).logsumexp(0) - math.log(2)
    both = torch.cat([torch.full((1, 4), -1.0), scores[0]]), torch.cat([torch.full((1, 4), -2.0), scores[1]])
    found = Ensemble([Table(4), Table(4)]).combine(both)
    torch.testing.assert_close(found[1:].double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[0].exp(), torch.full((4,), (math.exp(-1) + math.exp(-2)) / 2))


@pytest.mark.parametrize("native", [True, False])
def test_a_member_whose_logits_are_not_finite_ends_the_search(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        use_references(monkeypatch)
    bad = Table(VOCAB.tgt)
    bad.logits.data[:, 4] = torch.nan
    for model in (Ensemble([Table(VOCAB.tgt), bad]), ShallowFusion(Table(VOCAB.tgt), bad, 0.5, NO_SOURCE)):
        assert find(BeamSearch(BeamConfig()), model, *batch_of([[4], [5]]), VOCAB) == [[], []]


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fusion_weight=-0.5 must be 0 or more"):
        ShallowFusion(Table(7), Table(7), -0.5, NO_SOURCE)
