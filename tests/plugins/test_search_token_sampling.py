"""The sampling of one symbol, against the definition of every truncation in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

from s2s_search import SampleConfig
from s2s_search.token_sampling import sample_tokens


def probabilities(log_probs: list[float], allowed: list[bool], config: SampleConfig) -> dict[int, float]:
    """Temperature, then top_k, then top_p, one symbol after the other."""
    ids = [i for i, may in enumerate(allowed) if may]
    ids.sort(key=lambda i: (-log_probs[i], i))
    ids = ids[: config.top_k or None]
    weights = {i: math.exp(log_probs[i] / config.temperature) for i in ids}
    whole, kept, reached = sum(weights.values()), {}, 0.0
    for i in ids:
        if reached / whole < config.top_p:
            kept[i] = weights[i]
        reached += weights[i]
    return {i: weight / sum(kept.values()) for i, weight in kept.items()}


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.6}, {"top_p": 0.9, "top_k": 5, "temperature": 1.7}],
    ids=lambda options: ",".join(options) or "plain",
)
def test_each_symbol_is_drawn_as_often_as_it_is_probable(options: dict[str, Any]) -> None:
    config, n = SampleConfig(**options), 4000
    generator = torch.Generator().manual_seed(1)
    log_probs = torch.randn(2, 1, 9, generator=generator).log_softmax(-1)
    allowed = torch.rand(2, 1, 9, generator=generator) < 0.7
    even = ((torch.arange(n, dtype=torch.double) + 0.5) / n).expand(2, n)  # chance that is spread evenly
    chosen = sample_tokens(log_probs.expand(-1, n, -1), allowed.expand(-1, n, -1), even, config)
    for row, said, may in zip(chosen.tolist(), log_probs[:, 0].tolist(), allowed[:, 0].tolist(), strict=True):
        expected = probabilities(said, may, config)
        found = Counter(row)
        assert set(found) == set(expected)
        for symbol, p in expected.items():
            assert found[symbol] / n == pytest.approx(p, abs=2 / n)


def test_of_equally_probable_symbols_the_first_are_left() -> None:
    log_probs = torch.tensor([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]).log()[None, None]
    some = torch.linspace(0, 0.999, 500, dtype=torch.double)[None]
    for options, expected in (({"top_k": 3}, {1, 3, 5}), ({"top_k": 4}, {0, 1, 3, 5}), ({"top_p": 0.4}, {1, 3})):
        config = SampleConfig(**options)  # type: ignore[arg-type]
        chosen = sample_tokens(log_probs.expand(1, 500, 6), torch.ones(1, 500, 6, dtype=torch.bool), some, config)
        assert set(chosen[0].tolist()) == expected


@pytest.mark.parametrize("options", [{}, {"top_k": 5}, {"top_p": 0.9}])
def test_a_symbol_depends_on_nothing_beside_it(options: dict[str, Any]) -> None:
    """One neighbour is peaked, and the other's symbols are all alike."""
    config = SampleConfig(**options)
    peaked = torch.linspace(5, -5, 700)[None, None].log_softmax(-1)
    log_probs = torch.cat([peaked, torch.zeros(1, 1, 700).log_softmax(-1)]).expand(-1, 50, -1)
    uniform = torch.rand(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    allowed = torch.ones_like(log_probs, dtype=torch.bool)
    together = sample_tokens(log_probs, allowed, uniform, config)
    for i in range(2):
        alone = sample_tokens(log_probs[i : i + 1], allowed[i : i + 1], uniform[i : i + 1], config)
        assert torch.equal(together[i : i + 1], alone)
