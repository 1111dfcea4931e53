"""The sampling of one token, in C and in torch, against the definition of every truncation in plain Python, in fp64."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.reference_operators import use_references
from s2s.backend.operators import SamplingRule, sample_tokens

NONE = torch.empty(0, dtype=torch.long)
RULES = [
    SamplingRule(),
    SamplingRule(temperature=0.3),
    SamplingRule(temperature=5.0),
    SamplingRule(top_k=3),
    SamplingRule(top_k=10**6),
    SamplingRule(top_p=0.61),
    SamplingRule(top_p=1e-9),
    SamplingRule(temperature=1.7, top_k=50, top_p=0.93),
    SamplingRule(temperature=20.0, top_p=0.987),
]
"""The last keeps most tokens"""


@pytest.fixture(params=["native", "torch"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        use_references(monkeypatch)
    else:
        request.getfixturevalue("native_operators")


def probabilities(log_probs: list[float], allowed: list[bool], rule: SamplingRule) -> dict[int, float]:
    """Temperature, then top_k, then top_p, one token after the other; in the order of ids."""
    ids = [i for i, may in enumerate(allowed) if may and log_probs[i] > -math.inf]
    ids.sort(key=lambda i: (-log_probs[i], i))
    ids = ids[: rule.top_k or None]
    best = max(log_probs[i] for i in ids)
    weights = {i: math.exp((log_probs[i] - best) / rule.temperature) for i in ids}
    whole, kept, reached = math.fsum(weights.values()), {}, 0.0
    for i in ids:
        if reached / whole < rule.top_p:
            kept[i] = weights[i]
        reached += weights[i]
    whole = math.fsum(kept.values())
    return {i: kept[i] / whole for i in sorted(kept)}


def drawn(logits: Tensor, uniform: Tensor, rule: SamplingRule, allowed: Tensor | None = None) -> Tensor:
    allowed = torch.ones(*uniform.shape, logits.size(-1), dtype=torch.bool) if allowed is None else allowed
    token, log_prob = sample_tokens(logits, uniform, NONE, allowed, True, rule)
    expected = logits.double().log_softmax(-1).expand(-1, uniform.size(1), -1).gather(2, token[..., None])[..., 0]
    torch.testing.assert_close(log_prob.double(), expected, atol=2e-6, rtol=2e-6)
    return token


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("n_tokens", [1, 6, 255, 256, 257, 3000])
def test_a_token_is_where_the_cumulative_probability_in_fp64_exceeds_the_random_number(
    n_tokens: int, rule: SamplingRule
) -> None:
    """Up to 1e-6 of it: weights are in fp32."""
    generator = torch.Generator().manual_seed(n_tokens)
    logits = 3 * torch.randn(3, 1, n_tokens, generator=generator)
    logits[0, 0, 0] = -torch.inf if n_tokens > 1 else 0
    allowed = torch.rand(3, 1, n_tokens, generator=generator) < 0.7
    allowed[..., -1] = True
    uniform = torch.rand(3, 200, generator=generator, dtype=torch.double)
    uniform[:, 0], uniform[:, 1] = 0, 1 - 2**-53
    tokens = drawn(logits, uniform, rule, allowed.expand(-1, 200, -1))
    for row, values, may, numbers in zip(tokens, logits[:, 0].tolist(), allowed[:, 0].tolist(), uniform, strict=True):
        before, begin_of = 0.0, {}
        for token, p in probabilities(values, may, rule).items():
            begin_of[token] = before, before + p
            before += p
        for token, u in zip(row.tolist(), numbers.tolist(), strict=True):
            low, high = begin_of[token]
            assert low - 1e-6 <= u <= high + 1e-6


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_each_token_is_drawn_as_often_as_it_is_probable(rule: SamplingRule) -> None:
    n = 4000
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 1, 9, generator=generator)
    allowed = torch.rand(2, 1, 9, generator=generator) < 0.7
    even = ((torch.arange(n, dtype=torch.double) + 0.5) / n).expand(2, n)  # spread evenly
    chosen = drawn(logits, even, rule, allowed.expand(-1, n, -1))
    for row, values, may in zip(chosen.tolist(), logits[:, 0].tolist(), allowed[:, 0].tolist(), strict=True):
        expected, found = probabilities(values, may, rule), Counter(row)
        assert set(found) <= set(expected)
        for token, p in expected.items():
            assert found[token] / n == pytest.approx(p, abs=2 / n)


def test_of_equally_probable_tokens_the_first_are_left() -> None:
    logits = torch.tensor([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]).log()[None, None]
    some = torch.linspace(0, 0.999, 500, dtype=torch.double)[None]
    for options, expected in (({"top_k": 3}, {1, 3, 5}), ({"top_k": 4}, {0, 1, 3, 5}), ({"top_p": 0.4}, {1, 3})):
        rule = SamplingRule(**options)  # type: ignore[arg-type]
        assert set(drawn(logits, some, rule)[0].tolist()) == expected


@pytest.mark.parametrize("rule", [SamplingRule(), SamplingRule(top_k=5), SamplingRule(top_p=0.9)], ids=str)
def test_a_token_depends_on_nothing_beside_it(rule: SamplingRule) -> None:
    """One neighbour is peaked, and the other's tokens are all alike."""
    logits = torch.cat([torch.linspace(5, -5, 700)[None, None], torch.zeros(1, 1, 700)])
    uniform = torch.rand(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    together = drawn(logits, uniform, rule)
    for i in range(2):
        assert torch.equal(together[i : i + 1], drawn(logits[i : i + 1], uniform[i : i + 1], rule))


def test_a_number_that_is_almost_one_takes_no_forbidden_token() -> None:
    logits, almost = torch.tensor([[[0.5, 0.3, 0.2]]]).log(), torch.tensor([[1 - 2**-53]], dtype=torch.double)
    assert drawn(logits, almost, SamplingRule(), torch.tensor([[[True, True, False]]])).item() == 1
    everything = torch.ones(1, 1, 3, dtype=torch.bool)
    assert sample_tokens(logits, almost, torch.tensor([2]), everything, True, SamplingRule())[0].item() == 1


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e300])
def test_any_temperature_draws_a_possible_token(temperature: float) -> None:
    logits, uniform = torch.tensor([[[0.0, 1.0, 2.0, -torch.inf]]]), torch.tensor([[0.5]], dtype=torch.double)
    token = drawn(logits, uniform, SamplingRule(temperature=temperature)).item()
    assert token == (2 if temperature < 1 else 1)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        *({"logits": torch.full((1, 1, 5), value)} for value in (torch.nan, -torch.inf)),
        *({"logits": torch.tensor([[[0.0, 0, value, 0, 0]]])} for value in (torch.nan, torch.inf)),
        {"allowed": False},
    ],
    ids=["NaN", "-inf", "one NaN", "one inf", "nothing allowed"],
)
def test_where_no_token_is_possible_the_log_probability_is_minus_infinity(
    change: dict[str, Any], normalize: bool
) -> None:
    logits = change.get("logits", torch.zeros(1, 1, 5))
    allowed = torch.full((1, 2, 5), change.get("allowed", True))
    uniform = torch.tensor([[0.1, 0.9]], dtype=torch.double)
    token, log_prob = sample_tokens(logits, uniform, NONE, allowed, normalize, SamplingRule(top_k=2))
    assert token.tolist() == [[0, 0]]
    assert log_prob.tolist() == [[-math.inf, -math.inf]]


def test_a_token_that_is_not_allowed_may_have_no_number() -> None:
    logits, uniform = torch.tensor([[[-1.0, torch.nan, -1.0]]]), torch.tensor([[0.9]], dtype=torch.double)
    allowed = torch.tensor([[[True, False, True]]])
    for banned, may in ((NONE, allowed), (torch.tensor([1]), torch.ones_like(allowed))):
        assert sample_tokens(logits, uniform, banned, may, False, SamplingRule())[0].item() == 2


def test_without_normalisation_logits_are_log_probabilities() -> None:
    logits, uniform = torch.tensor([[[-3.0, -1.0]]]), torch.tensor([[0.5]], dtype=torch.double)
    everything = torch.ones(1, 1, 2, dtype=torch.bool)
    token, log_prob = sample_tokens(logits, uniform, NONE, everything, False, SamplingRule())
    assert (token.item(), log_prob.item()) == (1, -1.0)
