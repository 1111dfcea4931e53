"""Nodes that are written once and paths that are reordered, against attention over each hypothesis's own past."""

from __future__ import annotations

import pytest
import torch
from reference_operators import use_references
from torch import Tensor

from s2s.nn.attention import Heads, math_attention
from s2s.nn.kv_cache import CachedAttention, KVCacheState, empty_kv_cache

HEADS = Heads(n=2, d_k=3, d_v=5)


@pytest.fixture(params=["native", "torch"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        use_references(monkeypatch)
    else:
        request.getfixturevalue("native_operators")


class Slow:
    """One layer's past of every hypothesis, as lists that are copied."""

    def __init__(self, n_sentences: int) -> None:
        self.past: list[list[list[tuple[Tensor, Tensor]]]] = [[[]] for _ in range(n_sentences)]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]"""
        seen = torch.empty_like(v)
        for b, hypotheses in enumerate(self.past):
            for i, past in enumerate(hypotheses):
                past.append((k[b, :, i], v[b, :, i]))
                keys, values = (torch.stack(list(side), dim=1) for side in zip(*past, strict=True))
                seen[b, :, i] = math_attention(q[b, :, i, None], keys, values, None, False, 0.0)[:, 0]
        return seen


class Both:
    """A state and what it stands for, on one random way."""

    def __init__(self, n_sentences: int, seed: int = 0) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.slow = Slow(n_sentences)
        self.state: KVCacheState = empty_kv_cache(None, n_sentences, [HEADS], like=torch.empty(0))

    def step(self) -> None:
        n_sentences, beam = self.state.hypothesis.shape[:2]
        q, k, v = (torch.randn(n_sentences, HEADS.n, beam, d, generator=self.draw) for d in (3, 3, 5))
        self.state = self.state.extend()
        (layout,) = CachedAttention.of_layers(self.state, math_attention)
        torch.testing.assert_close(layout.attend(q, k, v, 0.0), self.slow.attend(q, k, v))

    def reorder(self, beam: int, most: int | None = None) -> None:
        n_sentences, now = self.state.hypothesis.shape[:2]
        parents = torch.randint(most or now, (n_sentences, beam), generator=self.draw)
        self.state = self.state.reorder(parents)
        self.slow.past = [
            [list(old[i]) for i in row] for old, row in zip(self.slow.past, parents.tolist(), strict=True)
        ]

    def keep(self, *rows: int) -> None:
        self.state = self.state.keep(torch.tensor(rows))
        self.slow.past = [self.slow.past[i] for i in rows]

    def join(self, other: Both) -> None:
        self.state = self.state.join(other.state)
        self.slow.past += other.slow.past


def test_hypotheses_see_their_own_past_in_any_order() -> None:
    both = Both(3)
    for beam in (1, 4, 4, 2, 7, 7, 7, 1, 3):
        both.step()
        both.reorder(beam)
    both.keep(2, 0)
    both.step()


def test_sentences_that_join_stand_at_different_symbols() -> None:
    older, newer = Both(3), Both(2, seed=1)
    for _ in range(5):
        older.step()
        older.reorder(3)
    newer.step()
    newer.reorder(3)
    older.keep(0, 2)
    newer.join(older)
    for rows in ((0, 1, 2, 3), (3, 1), (1,)):
        newer.keep(*rows)
        for _ in range(4):
            newer.step()
            newer.reorder(3)


def test_dead_nodes_leave_full_buffers() -> None:
    """Where all hypotheses go on from one, what is kept grows with the length and not with length times beam."""
    both, beam, n_steps = Both(2), 6, 90
    for _ in range(n_steps):
        both.step()
        both.reorder(beam, most=1)
    assert both.state.max_length == n_steps
    assert both.state.nodes[0].size(1) < 4 * n_steps < beam * n_steps


def test_buffers_do_not_move_while_there_is_room() -> None:
    both = Both(1)
    both.step()
    both.reorder(2)
    both.step()
    places = set()
    for _ in range(5):
        both.step()
        both.reorder(2)
        places.add(both.state.nodes[0].data_ptr())
    assert len(places) == 1
