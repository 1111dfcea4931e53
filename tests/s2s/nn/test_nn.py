"""The parts of models against slower truths."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from s2s.errors import ConfigError, DataError
from s2s.nn.attention import KERNELS, CrossAttention, Heads, Padded, SelfAttention
from s2s.nn.dropout import Dropout, apply_dropout
from s2s.nn.embedding import Embeddings
from s2s.nn.positions import LearnedPositions, Sinusoids
from s2s.task import Vocab


def attention_by_loops(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Equation 1 for each query in float64: q [B, h, T, d_k], k and v [B, h, S, ·], seen [B, T, S]."""
    q, k, v = q.double(), k.double(), v.double()
    out = torch.zeros(*q.shape[:3], v.size(3), dtype=torch.float64)
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        keys = [s for s in range(k.size(2)) if seen[b, t, s]]
        scores = torch.tensor([sum(q[b, h, t] * k[b, h, s]).item() / math.sqrt(q.size(3)) for s in keys])
        weights = scores.double().exp() / scores.double().exp().sum()
        out[b, h, t] = sum(w * v[b, h, s] for w, s in zip(weights, keys, strict=True))
    return out


@pytest.mark.parametrize("hides", ["nothing", "padding", "what follows"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_equation_1(kernel: str, hides: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 6), torch.randn(3, 2, 4, 6), torch.randn(3, 2, 4, 3)
    pad = torch.arange(4) >= torch.tensor([[4], [2], [1]])
    layouts = {
        "nothing": (Padded(KERNELS[kernel]), torch.ones(3, 4, 4)),
        "padding": (Padded.masking(pad, torch.float32, KERNELS[kernel]), (~pad)[:, None].expand(3, 4, 4)),
        "what follows": (Padded(KERNELS[kernel], causal=True), torch.ones(3, 4, 4).tril()),
    }
    layout, seen = layouts[hides]
    expected = attention_by_loops(q, k, v, seen)
    assert torch.allclose(layout.attend(q, k, v, 0.0).double(), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_with_nothing_to_see_gives_numbers_and_gradients(kernel: str, dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    pad = torch.tensor([[True, True, True], [False, True, True]])
    out = Padded.masking(pad, dtype, KERNELS[kernel]).attend(q, k, v, 0.0)
    out.sum().backward()
    assert out.isfinite().all()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_hidden_changes_no_bit(kernel: str) -> None:
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    pad = torch.tensor([[False, False, False, True, True]])
    layout = Padded.masking(pad, torch.float32, KERNELS[kernel])
    before = layout.attend(q, k, v, 0.0)
    k[:, :, 3:], v[:, :, 3:] = 50.0, -7.0
    assert torch.equal(layout.attend(q, k, v, 0.0), before)


def test_attention_takes_packed_shapes_as_well_as_padded_ones() -> None:
    """Only the layout looks at what stands before [T, D]."""
    attention = SelfAttention(8, Heads(2, 3, 5), dropout=0.0)
    x = torch.randn(4, 6, 8)
    layout = Padded(KERNELS["sdpa"])
    together = attention(x, layout)
    assert together.shape == x.shape
    for row, expected in zip(x, together, strict=True):
        assert torch.allclose(attention(row, layout), expected, atol=1e-6)


def test_queries_may_be_hypotheses() -> None:
    """Cross-attention does not care what its queries are: one at a time gives the same."""
    cross, memory = CrossAttention(8, Heads(2, 4, 4), dropout=0.0), torch.randn(2, 5, 8)
    keys_values, layout = cross.keys_values(memory), Padded(KERNELS["sdpa"])
    beams = torch.randn(2, 3, 8)
    together = cross(beams, keys_values, layout)
    for i in range(3):
        assert torch.allclose(cross(beams[:, i : i + 1], keys_values, layout), together[:, i : i + 1], atol=1e-6)


@pytest.mark.parametrize("start", [0, 5, 100_000])
def test_sinusoids_are_section_3_5(start: int) -> None:
    table = Sinusoids(10, "paper")(torch.arange(start, start + 4), torch.float64)
    for row, p in zip(table, range(start, start + 4), strict=True):
        for i in range(5):
            angle = p / 10_000 ** (2 * i / 10)
            assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-9)
            assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-9)


def test_t2t_sinusoids_lie_end_to_end_and_reach_the_longest_wave() -> None:
    table = Sinusoids(6, "t2t")(torch.arange(4), torch.float64)
    for p in range(4):
        angles = [p, p / 100, p / 10_000]
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert table[p].tolist() == pytest.approx(expected, abs=1e-12)


def test_sinusoids_of_a_shift_are_a_rotation() -> None:
    """Why the paper chose them: PE(p + k) is a linear function of PE(p), whatever p."""
    positions = Sinusoids(4, "paper")
    at = lambda p: positions(torch.tensor([p]), torch.float64)[0].view(2, 2)  # noqa: E731  [wave, (sin, cos)]
    for p in (0, 3, 50):
        for wave, (s, c) in enumerate(at(7).tolist()):
            rotation = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
            assert torch.allclose(rotation @ at(p)[wave], at(p + 7)[wave])


def test_learned_positions_are_rows_times_the_root_of_the_width() -> None:
    learned = LearnedPositions(5, 4)
    torch.nn.init.normal_(learned.weight)
    assert torch.equal(learned(torch.tensor([3, 1]), torch.float32), learned.weight[[3, 1]] * 2)
    learned.check(5)
    with pytest.raises(DataError, match=r"6 tokens.*arch\.max_positions=6"):
        learned.check(6)


@pytest.mark.parametrize(("sharing", "n_tables"), [("shared", 1), ("target", 2), ("none", 3)])
def test_shared_matrices_are_one(sharing: str, n_tables: int) -> None:
    vocab = Vocab(src=9, tgt=9, joint=True)
    embeddings = Embeddings(vocab, 4, sharing)  # type: ignore[arg-type]
    embeddings.init_weights()
    ids = torch.tensor([[4, 5]])
    assert len(list(embeddings.parameters())) == n_tables
    assert torch.equal(embeddings.source(ids), embeddings.target(ids)) == (sharing == "shared")
    is_target = torch.allclose(embeddings.logits(torch.eye(4)).T * 2, embeddings.target(torch.arange(9)))
    assert is_target == (sharing != "none")


@pytest.mark.parametrize("vocab", [Vocab(src=9, tgt=9), Vocab(src=9, tgt=8, joint=True)])
def test_sharing_without_a_joint_vocabulary_is_refused(vocab: Vocab) -> None:
    with pytest.raises(ConfigError, match="share_embeddings"):
        Embeddings(vocab, 4, "shared")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_and_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(200, 500, dtype=dtype)
    dropped = apply_dropout(x, 0.3)
    assert (dropped == 0).double().mean().item() == pytest.approx(0.3, abs=0.006)  # four standard deviations
    assert dropped[dropped != 0].double().unique().tolist() == pytest.approx([1 / 0.7], rel=1e-5)


def test_values_are_dropped_independently() -> None:
    """Four of them come from one random number: no two may be dropped together more often than others."""
    torch.manual_seed(1)
    kept = (apply_dropout(torch.ones(2**18, 4), 0.25) > 0).double()
    assert torch.allclose(kept.mean(0), torch.tensor(0.75).double(), atol=5e-3)
    assert torch.allclose(kept.T.cov(), 0.1875 * torch.eye(4).double(), atol=3e-3)


def test_dropout_passes_the_gradient_of_what_it_kept() -> None:
    x = torch.ones(50, requires_grad=True)
    dropped = apply_dropout(x, 0.5)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, dropped.detach())


def test_dropout_follows_the_seed_and_rests_in_evaluation() -> None:
    layer, x = Dropout(0.5), torch.ones(50)
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert layer.eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("layout", ["paper", "t2t"])
def test_the_first_positions_are_those_computed_one_by_one(layout: Any) -> None:
    """More than before, fewer, of another type, and in another order."""
    kept = Sinusoids(8, layout)
    for n, dtype in ((3, torch.float32), (500, torch.float32), (7, torch.float64), (7, torch.float32)):
        alone = torch.stack([Sinusoids(8, layout)(torch.tensor(i), dtype) for i in range(n)])
        assert torch.equal(kept.first(n, dtype, torch.device("cpu")), alone)
