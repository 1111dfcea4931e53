"""Dropout with every 16-bit number once, in place of random draws."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from s2s.backend.operators import rows
from s2s.backend.operators.rows import random_int16, random_int64
from s2s.nn.dropout import Dropout, WordDropout, apply_dropout

LEVELS = 65_536


def every_level(_: torch.Size) -> torch.Tensor:
    return torch.arange(-32_768, 32_768, dtype=torch.int16)


@pytest.mark.parametrize("p", [1 / LEVELS, 0.1, 0.5, 0.9, 1 - 1 / LEVELS, 1 - 1e-9])
def test_the_nearest_share_is_dropped_and_the_mean_is_kept(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "random_int16", every_level)
    x = apply_dropout(torch.ones(LEVELS), p)
    share = min(Fraction(round(p * LEVELS), LEVELS), 1 - Fraction(1, LEVELS))
    assert int((x == 0).sum()) == share * LEVELS
    assert float(x.double().mean()) == pytest.approx(1.0, rel=1e-6)
    assert len(x[x > 0].unique()) == 1


def test_nothing_is_drawn_where_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "random_int16", None)
    x = torch.randn(5)
    assert apply_dropout(x, 0) is x
    words = WordDropout(0.0)
    assert words(x) is x
    words = WordDropout(0.5).eval()
    assert words(x) is x


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (4,), (5,), (2, 3)])
def test_draws_have_any_shape(shape: tuple[int, ...]) -> None:
    drawn = random_int16(torch.Size(shape))
    assert drawn.shape == shape
    assert drawn.dtype == torch.int16
    assert drawn.untyped_storage().nbytes() < 2 * drawn.numel() + 8, "64 bits are drawn at a time, and no more"


def test_draws_are_uniform_over_16_bits() -> None:
    torch.manual_seed(0)
    drawn = random_int16(torch.Size([400_000])).long() + 32_768
    counts = torch.bincount(drawn // 4096, minlength=16).double()
    assert float(((counts - 25_000).square() / 25_000).sum()) < 37.7  # chi square, 15 degrees of freedom, 0.1%
    assert float((drawn % 2).double().mean()) == pytest.approx(0.5, abs=0.004)
    assert int(drawn.max()) > 65_500
    assert int(drawn.min()) < 36


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
@pytest.mark.parametrize("seed", [0, 1_234_567, -1, 2**63 - 1])
def test_random_numbers_are_those_of_the_generators_definition(seed: int, n: int) -> None:
    def mixed(x: int) -> int:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ x >> shift) * factor % 2**64
        return x ^ x >> 31

    expected = [mixed((seed + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(1, n + 1)]
    for drawn in (random_int64(seed, n), random_int64.reference(seed, n)):
        assert [x % 2**64 for x in drawn.tolist()] == expected
    if (seed, n) == (1_234_567, 100):  # as published with it
        assert expected[:3] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_words_are_dropped_whole() -> None:
    torch.manual_seed(0)
    x = WordDropout(0.25)(torch.ones(40, 50, 3))
    assert set(x.sum(-1).unique().tolist()) == {0.0, 4.0}
    assert float((x[..., 0] == 0).double().mean()) == pytest.approx(0.25, abs=0.04)


def test_a_gpu_draws_its_own_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "random_int16", None)
    x = apply_dropout(torch.ones(3, device="meta"), 0.5)
    assert x.device.type == "meta"


def test_a_printed_model_shows_the_share_that_is_dropped() -> None:
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"
