"""Nodes that are written once and paths that are reordered, against attention over each hypothesis's own past."""

from __future__ import annotations

import sys
import weakref
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness.reference_operators import use_references
from harness.resident_memory import address, n_bytes_in_memory
from s2s.nn.attention import Heads, math_attention
from s2s.nn.kv_cache import CachedAttention, KVCacheState, empty_kv_cache
from s2s.nn.node_buffers import LARGE, NodeBuffers, _clear
from s2s.tensors import map_tensors

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
        (layout,) = CachedAttention.for_layers(self.state, math_attention)
        torch.testing.assert_close(layout.attend(q, k, v, 0.0), self.slow.attend(q, k, v))

    def reorder(self, beam: int, most: int | None = None) -> None:
        n_sentences, now = self.state.hypothesis.shape[:2]
        parents = torch.randint(most or now, (n_sentences, beam), generator=self.draw)
        self.state = self.state.reorder(parents)
        self.slow.past = [
            [list(old[i]) for i in row] for old, row in zip(self.slow.past, parents.tolist(), strict=True)
        ]

    def select(self, *rows: int) -> None:
        self.state = self.state.select(torch.tensor(rows, dtype=torch.long))
        self.slow.past = [self.slow.past[i] for i in rows]

    def join(self, other: Both) -> None:
        self.state = self.state.join(other.state)
        self.slow.past += other.slow.past


def test_hypotheses_see_their_own_past_in_any_order() -> None:
    both = Both(3)
    for beam in (1, 4, 4, 2, 7, 7, 7, 1, 3):
        both.step()
        both.reorder(beam)
    both.select(2, 0)
    both.step()


def test_sentences_that_join_stand_at_different_symbols() -> None:
    older, newer = Both(3), Both(2, seed=1)
    for _ in range(5):
        older.step()
        older.reorder(3)
    newer.step()
    newer.reorder(3)
    older.select(0, 2)
    newer.join(older)
    for rows in ((0, 1, 2, 3), (3, 1), (1,)):
        newer.select(*rows)
        for _ in range(4):
            newer.step()
            newer.reorder(3)


def test_it_begins_with_an_empty_path_in_an_empty_tree() -> None:
    layers = [Heads(n=4, d_k=3, d_v=5), Heads(n=4, d_k=3, d_v=5, n_kv=2)]
    state = empty_kv_cache("of the sentences", 3, layers, like=torch.empty(0, dtype=torch.bfloat16))
    assert (state.sentence, state.max_length, state.max_nodes) == ("of the sentences", 0, 0)
    assert state.hypothesis.shape == (3, 1, 0)
    assert state.length.tolist() == state.n_nodes.tolist() == [0, 0, 0]
    assert [(x.shape, x.dtype) for x in state.nodes] == [((3, 0, n), torch.bfloat16) for n in (32, 16)]
    assert state.supports_join
    assert state.supports_capture


@pytest.mark.parametrize(
    ("rows", "in_place"), [([0, 1, 2], True), ([0, 3], True), ([0, 2], True), ([1, 2], False), ([2, 1, 0], False)]
)
def test_sentences_stay_where_they_are_unless_they_overlap(rows: list[int], in_place: bool) -> None:
    both = Both(4)
    both.step()
    place = both.state.nodes[0].data_ptr()
    both.select(*rows)
    assert (both.state.nodes[0].data_ptr() == place) == in_place
    both.step()


@pytest.mark.parametrize(
    ("device", "paths", "nodes"),
    [("cpu", [32, 80, 152], [32, 157, 285, 427, 637]), ("of graphs", [32, 96, 192], [32, 160, 320, 512, 768])],
)
def test_buffers_grow_by_half_or_by_32_steps(
    device: str, paths: list[int], nodes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no node is dead; where steps are captured in graphs, to the next of few sizes."""
    if device == "of graphs":
        monkeypatch.setattr("s2s.backend.core_devices.CPU.supports_graphs", True)
    state = empty_kv_cache(None, 1, [HEADS], like=torch.empty(0)).extend()
    state = state.reorder(torch.zeros(1, 4, dtype=torch.long))
    sizes = [(state.hypothesis.size(2), state.nodes[0].size(1))]
    for _ in range(150):
        state = state.extend()
        sizes.append((state.hypothesis.size(2), state.nodes[0].size(1)))
    assert [list(dict.fromkeys(column)) for column in zip(*sizes, strict=True)] == [paths, nodes]


@pytest.mark.parametrize(("paths", "after", "live"), [
    ([[2], [0], [2]], [[1], [0], [1]], [0, 2]),
    ([[2], [0], [3]], [[1], [0], [2]], [0, 2, 3]),
], ids=["half of the nodes", "three of four nodes"])  # fmt: skip
def test_nodes_on_no_path_are_removed(paths: list[list[int]], after: list[list[int]], live: list[int]) -> None:
    """Of full buffers; what a path holds beyond its length is arbitrary."""
    nodes = torch.arange(4.0)[:, None]
    state = KVCacheState(
        sentence=None,
        hypothesis=torch.tensor([[[*path, 1000] for path in paths]]),
        nodes=NodeBuffers([nodes[None]]),
        length=torch.tensor([1]),
        n_nodes=torch.tensor([4]),
        max_length=1,
        max_nodes=4,
    ).reserve()
    assert state.hypothesis[..., :1].tolist() == [after]
    assert torch.equal(state.nodes[0][0, : len(live)], nodes[live])
    assert state.n_nodes.tolist() == [state.max_nodes] == [len(live)]


def test_sentences_join_where_others_were() -> None:
    """What they find there is not seen, and the rows that stay are not moved; more than fit are copied."""
    both = Both(6)
    for _ in range(5):
        both.step()
        both.reorder(3)
    both.select(0, 5, 2)
    place, moved = both.state.nodes[0].data_ptr(), []
    for n in (2, 1, 2):
        newer = Both(n, seed=n)
        newer.step()
        newer.reorder(3)
        both.join(newer)
        moved.append(both.state.nodes[0].data_ptr() != place)
        both.step()
        both.reorder(3)
    assert moved == [False, False, True], "there were three rows"
    for _ in range(60):
        both.step()
        both.reorder(3)


def test_sentences_join_rows_without_what_others_have_left_in_them() -> None:
    """A NaN of theirs, times a weight of zero, would be NaN."""
    both, newer = Both(3), Both(1, seed=1)
    for one in (both, newer):
        one.step()
        one.reorder(2)
    for _ in range(3):
        both.step()
        both.reorder(2)
    both.state.nodes[0][2, : both.state.max_nodes] = torch.nan
    both.select(0, 1)
    assert both.state.max_nodes == 7, "as many as were written, though fewer may be in use"
    both.join(newer)
    assert not both.state.nodes[0].isnan().any()
    for _ in range(3):
        both.step()
        both.reorder(2)


def test_full_buffers_are_freed_one_by_one() -> None:
    """The search still has the state before: with all of its buffers, it would hold the nodes twice."""
    before = Both(2).state.extend()
    full = before.reorder(torch.zeros(2, 4, dtype=torch.long)).at_capacity(1)
    old = weakref.ref(full.nodes[0])
    after = full.reserve(4)
    assert after.nodes[0].size(1) > before.max_nodes
    assert old() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only there are pages taken as they are written")
def test_rows_take_memory_as_they_are_written_and_give_it_back() -> None:
    state = empty_kv_cache(None, 256, [Heads(n=2, d_k=64, d_v=64)], like=torch.empty(0))
    state = state.reserve(64)  # 256 rows of 2,048 nodes of 1 KB
    room = state.nodes[0].nbytes
    assert room == 2**29
    state.nodes[0][:, :64] = 1.0
    of_nodes = address(state.nodes[0])
    assert room // 64 < n_bytes_in_memory(*of_nodes) < room // 8
    del state
    assert n_bytes_in_memory(*of_nodes) == 0


def test_large_rows_are_moved_and_taken_as_far_as_they_are_used() -> None:
    """Four sentences with paths of other lengths; what is behind a row's nodes is 0, and in no memory."""
    heads = Heads(n=2, d_k=64, d_v=64)
    state = empty_kv_cache(None, 4, [heads], like=torch.empty(0)).reserve(512)  # rows of 16,384 nodes of 1 KB
    nodes = state.nodes[0]
    assert nodes[0].nbytes > LARGE
    nodes[:] = 7.0  # where nothing is used, too
    nodes[3, :5] = torch.arange(5.0)[:, None]
    state = replace(state, n_nodes=torch.tensor([9, 9, 9, 5]), length=torch.ones(4, dtype=torch.long), max_nodes=9)
    state = state.select(torch.tensor([0, 3, 2]))
    assert state.nodes[0].data_ptr() == nodes.data_ptr()
    assert state.nodes[0][1, :5, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert state.nodes[0][[0, 2]].eq(7.0).all()
    if sys.platform == "linux":
        rows = [n_bytes_in_memory(*address(row)) for row in nodes]
        assert rows[0] == rows[2] == nodes[0].nbytes
        assert max(rows[1], rows[3]) < nodes[0].nbytes // 4, "the row that was filled, and the last"
    assert not state.nodes[0][1, 5:].any()
    joined = state.join(empty_kv_cache(None, 1, [heads], like=torch.empty(0)))
    assert joined.nodes[0].data_ptr() == nodes.data_ptr()
    assert not joined.nodes[0][3].any()
    assert joined.nodes[0][[0, 2]].eq(7.0).all()


def test_sentences_in_another_order_are_copied_to_memory_of_their_own() -> None:
    heads = Heads(n=2, d_k=64, d_v=64)
    state = empty_kv_cache(None, 4, [heads], like=torch.empty(0)).reserve(512)
    state.nodes[0][:] = torch.arange(4.0)[:, None, None]
    kept = state.select(torch.tensor([2, 0, 1]))
    assert kept.nodes[0][:, 0, 0].tolist() == [2.0, 0.0, 1.0]
    assert kept.nodes.n_spare == 0
    assert len(kept.select(torch.tensor([], dtype=torch.long)).select(torch.tensor([], dtype=torch.long)).length) == 0


@pytest.mark.parametrize("begin", [0, 1, 1023, 1024])
@pytest.mark.parametrize("n", [1, 100, LARGE // 4 - 1, LARGE // 4 + 1024, LARGE])
def test_clear_writes_zeros_there_alone(begin: int, n: int) -> None:
    x = torch.ones(2 * LARGE)
    assert not _clear(x[begin : begin + n]).any()
    assert (x[:begin].all(), x[begin + n :].all(), x.sum()) == (True, True, 2 * LARGE - n)
    every_other = torch.ones(LARGE, 2)
    _clear(every_other[:, 0])
    assert every_other.sum() == LARGE


def test_a_row_that_is_a_part_of_a_wider_one_is_copied() -> None:
    """A single row always counts as contiguous."""
    first = empty_kv_cache(torch.ones(3, 60), 3, [HEADS], like=torch.empty(0)).select(torch.tensor([0]))
    narrowed = replace(first, sentence=first.sentence[:, :20])
    both = narrowed.join(empty_kv_cache(torch.full((1, 18), 2.0), 1, [HEADS], like=torch.empty(0)))
    assert both.sentence.tolist() == [[1.0] * 20, [2.0] * 18 + [0.0] * 2]
    assert both.sentence.is_contiguous()


def test_the_memory_of_other_buffers_is_not_written_behind() -> None:
    both, newer = Both(3), Both(1, seed=1)
    for one in (both, newer):
        one.step()
        one.reorder(2)
    both.select(0, 1)
    assert both.state.nodes.n_spare == 1
    both.state = both.state.with_buffers(map_tensors(torch.clone, both.state.buffers()))
    assert both.state.nodes.n_spare == 0
    both.join(newer)
    both.step()


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


@pytest.mark.parametrize("beams", [[3], [1], [8, 8, 8, 8, 8, 1]], ids=["nodes", "both", "paths"])
def test_free_steps_are_those_until_a_buffer_has_to_grow(beams: list[int]) -> None:
    """Named by the buffer that is full first."""
    both, beam = Both(2), beams[-1]
    both.step()
    for n in beams:
        both.reorder(n)
        both.step()
    before = both.state
    n = before.n_free_steps
    assert n > 1
    for _ in range(n):
        both.reorder(beam)
        both.step()
    after, expected = both.state, before.after_step(beam, n)
    assert (after.max_length, after.max_nodes) == (expected.max_length, expected.max_nodes)
    assert [x.data_ptr() for x in after.nodes] == [x.data_ptr() for x in before.nodes]
    assert after.n_free_steps == 0
    both.step()
    assert both.state.n_free_steps > 0, "it grew"


def test_a_state_at_capacity_has_room_for_one_more_step() -> None:
    both = Both(2)
    assert both.state.prepare_capture() is None, "the first token has a beam of one"
    both.step()
    both.reorder(4)
    both.step()
    ready = both.state.prepare_capture()
    assert ready is not None
    assert ready.n_free_steps > 0
    full = ready.at_capacity(4)
    assert full.max_length == full.hypothesis.size(2) - 1
    assert full.max_nodes == full.nodes[0].size(1) - 4
    assert full.n_free_steps == 1


def test_buffers_can_be_exchanged_and_rows_emptied() -> None:
    both = Both(3)
    both.step()
    both.reorder(2)
    both.step()
    copies = map_tensors(torch.clone, both.state.buffers())
    both.state = both.state.with_buffers(copies)
    assert both.state.nodes[0] is copies[0][0]
    both.reorder(2)
    both.step()
    both.state.clear_rows(1)
    assert both.state.length.tolist() == [3, 0, 0]
    assert both.state.n_nodes.tolist() == [5, 0, 0]


def test_a_batch_may_lose_its_last_sentence() -> None:
    both = Both(2)
    both.step()
    both.select()
    assert (both.state.max_length, both.state.max_nodes) == (0, 0)
    assert both.state.hypothesis.size(0) == both.state.nodes[0].size(0) == 0
