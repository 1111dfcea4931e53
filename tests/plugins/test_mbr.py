"""Minimum Bayes risk, which counts many pairs at once, against every pair by itself."""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.capital_tasks import Capitals
from harness.generators import generator_of
from harness.search_calls import find
from harness.shipped_plugins import generate_config, shipped
from harness.table_model import Table
from s2s.decoding import Hypothesis, SampleConfig
from s2s.metrics import Metric, Score
from s2s.plugin import load_plugins
from s2s_mbr.stage import MinimumBayesRisk, rank_by_utility
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = ["the", "The", "old,", "house", "was-", "sold.", "a", "man", "&", "woman", "rides", "3,000", "birds!"]


def metric(name: str, **options: Any) -> Metric:
    entry = load_plugins().registry.get("metric", name)
    return entry.build(entry.config(name=name, **options))


def texts(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return ["", " ", "a", *(" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(n - 3))]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("chrf", {}),
        ("chrf", {"word_order": 2, "lowercase": True}),
        ("chrf", {"char_order": 3, "beta": 3}),
        ("bleu", {}),
        ("bleu", {"smooth": "add-k", "tokenize": "char"}),
        ("bleu", {"smooth": "floor", "lowercase": True}),
        ("bleu", {"smooth": "none"}),
        ("bleu_moses", {"lang": "en"}),
        ("ter", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(map(str, value.values())),
)
def test_all_pairs_at_once_score_as_each_pair_by_itself(name: str, options: dict[str, Any]) -> None:
    judge, some = metric(name, **options), texts(12)
    found = judge.pairwise(some)
    for i, hyp in enumerate(some):
        for j, ref in enumerate(some):
            assert found[i][j] == pytest.approx(judge.per_sentence([hyp], [[ref]])[0]["score"], abs=1e-9), (hyp, ref)


class Overlap(Metric):
    """Shares of letters; a stranger's metric, which has nothing but its `__call__`."""

    name = "overlap"

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        shares = [len({*h} & {*r}) / max(len({*h} | {*r}), 1) for h, r in zip(hyps, refs[0], strict=True)]
        return Score(self.name, sum(shares) / len(shares), "overlap")


class Distance(Overlap):
    higher_is_better = False

    def __call__(self, *args: Any) -> Score:
        score = super().__call__(*args)
        return Score("distance", 1 - score.value, "distance", higher_is_better=False)


@pytest.mark.parametrize("weights", ["uniform", "model"])
@pytest.mark.parametrize("judge", [metric("chrf"), Overlap(), Distance()], ids=["chrf", "a stranger's", "distance"])
def test_the_largest_expected_utility_is_that_of_brute_force(judge: Metric, weights: Any) -> None:
    some = [*texts(9), *texts(5)]  # some of them twice
    log_probs = [-0.3 * i for i in range(len(some))]
    sign = 1 if judge.higher_is_better else -1
    share = [1.0 if weights == "uniform" else math.exp(p) for p in log_probs]
    expected = {
        hyp: sign * sum(w * judge([hyp], [[ref]]).value for w, ref in zip(share, some, strict=True)) / sum(share)
        for hyp in some
    }
    found = rank_by_utility(some, share, judge)
    assert {some[place]: utility for place, utility in found} == pytest.approx(expected)
    assert [utility for _, utility in found] == sorted((u for _, u in found), reverse=True)
    assert [place for place, _ in found] == [some.index(some[place]) for place, _ in found], "the first of equal ones"


def test_a_text_has_the_sum_of_the_probabilities_of_its_token_sequences_each_once() -> None:
    """A sequence that is drawn twice has no more probability than one that is drawn once."""
    sequences = [([4, 5], -1.0, "ab"), ([6], -1.5, "ab"), ([4, 5], -1.0, "ab"), ([7], -0.5, "bc")]
    hypotheses = [Hypothesis(tokens, p, p, [p]) for tokens, p, _ in sequences]
    found = MinimumBayesRisk(Overlap(), "model").rerank([text for *_, text in sequences], hypotheses)
    once = [0, 1, 3]
    shares = [math.exp(sequences[i][1]) for i in once]
    assert found == [
        (place, pytest.approx(utility))
        for place, utility in rank_by_utility([sequences[i][2] for i in once], shares, Overlap())
        for place in [once[place]]
    ]


def test_leaving_an_output_out_of_its_own_references_changes_no_order() -> None:
    judge, some = metric("chrf"), texts(20)[3:]
    beside = judge.pairwise(some)
    others = [sum(row[j] for j in range(len(some)) if j != i) for i, row in enumerate(beside)]
    found = rank_by_utility(some, [1.0] * len(some), judge)
    assert [place for place, _ in found] == sorted(range(len(some)), key=lambda i: -others[i])


def test_the_generator_writes_what_is_likest_to_all_samples() -> None:
    torch.manual_seed(0)
    model, task, search = Table(30, spread=3.0), Capitals(), Sampling(SampleConfig(max_len_b=6))
    judge = metric("chrf", char_order=2)
    config = generate_config(format="jsonl", nbest=3, candidates=25, mbr={"name": "chrf", "char_order": 2})
    chosen = generator_of(model, task, search, config, shipped())
    for src, output in zip(["abc", "x"], chosen(["abc", "x"]), strict=True):
        row = torch.tensor([[*task.encode_source([src])[0], task.vocab.eos]])
        (drawn,) = find(search, model, row, row == 0, task.vocab, nbest=25)
        hyps = [task.detokenize(one.tokens, src) for one in drawn]
        expected = {hyp: sum(judge([hyp], [[ref]]).value for ref in hyps) / len(hyps) for hyp in hyps}
        best = sorted(expected.values(), reverse=True)[:3]
        assert [candidate.score for candidate in output.nbest] == pytest.approx(best)
        assert [expected[candidate.hyp] for candidate in output.nbest] == pytest.approx(best)
        assert output.best.log_probs, "what the model says of it is still there"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_a_hundred_candidates_take_less_than_a_second(name: str) -> None:
    judge, some = metric(name), texts(100, seed=1)
    begin = time.process_time()
    judge.pairwise(some)
    assert time.process_time() - begin < 1
