"""The functions in C against float64; a row has the same bits in every batch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from s2s.backend.operators import TreePaths
from s2s.nn.attention import sdpa
from s2s_cpu import attention, beam_search, rows
from s2s_cpu.library import call, native_library
from s2s_cpu.structs import TokenListsStruct

native = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)
NONE = torch.empty(0, dtype=torch.long)


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) * scale


@native
@pytest.mark.parametrize("n_symbols", [1, 7, 16, 127, 128, 129, 1000, 5003])
@pytest.mark.parametrize("n", [1, 5, 44, 130, 600])
@pytest.mark.parametrize("steps", [0.0, 8.0, 1e6], ids=["all equal", "many ties", "few"])
def test_the_n_largest_are_those_of_a_sort(n_symbols: int, n: int, steps: float) -> None:
    scores = (random(6, n_symbols) * steps).round() / max(steps, 1.0)
    values, ids = beam_search.top_k(scores, n)
    expected = scores.sort(dim=-1, descending=True, stable=True)
    there = min(n, n_symbols)
    assert torch.equal(values, expected.values[:, :n])
    assert torch.equal(ids, expected.indices[:, :n])
    assert values.size(1) == there


@native
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("n_symbols", [1, 31, 32, 33, 5003])
def test_log_probabilities_are_those_of_float64(scale: float, n_symbols: int) -> None:
    logits = random(3, 2, n_symbols, scale=scale)
    values, ids = beam_search.top_k_log_probs(logits, 4, NONE)
    expected = logits.double().log_softmax(-1).gather(2, ids)
    there = values > -torch.inf
    assert there.sum() == 6 * min(4, n_symbols)
    torch.testing.assert_close(values[there].double(), expected[there], rtol=1e-6, atol=4e-6 + 1e-7 * scale)


@native
def test_what_is_not_allowed_is_in_the_sum_but_not_among_the_largest() -> None:
    logits, allowed = random(5, 300), random(5, 300) > 1.5
    allowed[2] = False
    values, ids = beam_search.top_k_log_probs(logits, 8, NONE, allowed)
    expected = logits.log_softmax(-1).masked_fill(~allowed, -torch.inf).sort(dim=-1, descending=True, stable=True)
    torch.testing.assert_close(values, expected.values[:, :8])
    assert torch.equal(ids[values > -torch.inf], expected.indices[:, :8][values > -torch.inf])


@native
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("n_symbols", [40, 5003])
def test_lists_of_what_is_allowed_have_the_bits_of_the_same_as_true_and_false(n_symbols: int, normalize: bool) -> None:
    """Of few and of nearly all tokens, of one and of none; among them equal ones, and rows that are no numbers."""
    logits = random(6, n_symbols).mul(8).round() / 8
    logits[4, 7], logits[5, 9] = torch.nan, -torch.inf
    allowed = random(5, n_symbols) > torch.tensor([1.5, -2.0, 9.0, 1.0, 0.0])[:, None]
    allowed[2, 31] = True
    lists = [row.nonzero()[:, 0] for row in [*allowed, allowed[0] & False]]
    begin, which = torch.tensor([0, *map(len, lists)]).cumsum(0), torch.tensor([0, 1, 2, 5, 3, 4])
    masks = torch.cat([allowed, allowed[:1] & False])[which]
    banned, n = torch.tensor([0, 31]), 46
    expected = beam_search.top_k_log_probs(logits, n - 2, banned, masks, normalize)
    n = expected[0].size(1)
    found, sums = (torch.empty(6, n), torch.empty(6, n, dtype=torch.long)), torch.empty(6) if normalize else None
    tokens = torch.cat(lists)
    lists_of = TokenListsStruct(begin.data_ptr(), tokens.data_ptr())
    given = (6, n_symbols, n, ctypes.addressof(lists_of), which, banned, 2, None, 1, 0, sums)
    call("s2s_top_k_of_lists", logits, *given, *found)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def best_of_sentences(values: Tensor, ids: Tensor, score: Tensor, n_best: int) -> list[list[tuple[float, int, int]]]:
    """values, ids [B, K, n], score [B, K] -> of each sentence the best totals, with the row and the token of each."""
    found = []
    for of_sentence in zip((score[:, :, None] + values).tolist(), ids.tolist(), strict=True):
        rows = enumerate(zip(*of_sentence, strict=True))
        all_of_it = [
            (total, k, token) for k, row in rows for total, token in zip(*row, strict=True) if total > -torch.inf
        ]
        found.append(sorted(all_of_it, key=lambda one: -one[0])[:n_best])
    return found


@native
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("n_best", [1, 8, 40])
@pytest.mark.parametrize("among", ["all", "allowed", "lists"])
def test_what_is_among_the_best_of_a_sentence_is_never_left_out(among: str, n_best: int, normalize: bool) -> None:
    """Of three sentences of six rows, some of which have no score, or are no numbers; with banned tokens and ties."""
    B, K, V, n = 3, 6, 2000, 40
    logits, score = random(B * K, V, scale=3.0).mul(4).round() / 4, random(B * K, scale=2.0)
    score[[1, 8, 12, 13, 14, 15, 16, 17]] = -torch.inf
    logits[4, 9], logits[10, 5] = torch.nan, torch.inf
    banned, allowed = torch.tensor([3, 1500]), random(B * K, V) > 0.5
    lists = [row.nonzero()[:, 0] for row in allowed]
    tokens, begin = torch.cat(lists), torch.tensor([0, *map(len, lists)]).cumsum(0)
    struct = TokenListsStruct(begin.data_ptr(), tokens.data_ptr())
    if among == "lists":
        name, given = "s2s_top_k_of_lists", [ctypes.addressof(struct), torch.arange(B * K)]
    else:
        name, given = "s2s_top_k", [allowed if among == "allowed" else None]

    def found(*of_sentence: Any) -> tuple[Tensor, Tensor]:
        values, ids = torch.empty(B * K, n), torch.empty(B * K, n, dtype=torch.long)
        sums = torch.empty(B * K) if normalize else None
        call(name, logits, B * K, V, n, *given, banned, 2, *of_sentence, sums, values, ids)
        return values.view(B, K, n), ids.view(B, K, n)

    by_sentence, alone, scores = found(score, K, n_best), found(None, 1, 0), score.view(B, K)
    assert best_of_sentences(*by_sentence, scores, n_best) == best_of_sentences(*alone, scores, n_best)
    assert (by_sentence[0] > -torch.inf).sum() < (alone[0] > -torch.inf).sum(), "fewer were looked for"


@native
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_with_what_is_no_number_has_no_candidates(bad: float) -> None:
    logits = random(3, 200)
    logits[1, 190] = bad
    values, _ = beam_search.top_k_log_probs(logits, 3, NONE)
    assert values.isfinite().tolist() == [[True] * 3, [False] * 3, [True] * 3]
    assert (values[1] == -torch.inf).all()


@native
def test_a_row_has_the_same_bits_whatever_the_others_are() -> None:
    logits = random(9, 5003)
    together = beam_search.top_k_log_probs(logits, 5, NONE)[0]
    assert torch.equal(together, torch.cat([beam_search.top_k_log_probs(row[None], 5, NONE)[0] for row in logits]))


@native
@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (16, 48), (5, 3), (20, 8)])
def test_attention_over_paths_is_attention_over_what_they_hold(d_k: int, d_v: int) -> None:
    n_sentences, beam, room, longest, heads = 3, 4, 40, 9, 2
    q, k = random(n_sentences, beam, heads, d_k), random(n_sentences, beam, heads, d_k, scale=2)
    v = random(n_sentences, beam, heads, d_v)
    nodes = random(n_sentences, room, heads * (d_k + d_v))
    path = torch.stack([torch.randperm(room)[:longest] for _ in range(n_sentences * beam)]).unflatten(0, (-1, beam))
    length = torch.tensor([9, 1, 4])
    newest = torch.arange(30, 30 + beam).expand(n_sentences, beam)
    path[path >= 30] = 0
    path.scatter_(2, (length - 1)[:, None, None].expand(-1, beam, 1), newest[..., None])
    paths = TreePaths(path, length, torch.full((n_sentences,), 30 + beam), longest, 30 + beam)
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    found = attention.tree_attention(*heads_first, nodes, paths, sdpa, 0.0).transpose(1, 2)
    for b in range(n_sentences):
        for i in range(beam):
            held = nodes[b, path[b, i, : length[b]]].double()
            keys, values = (
                held[:, : heads * d_k].unflatten(1, (heads, -1)),
                held[:, heads * d_k :].unflatten(1, (heads, -1)),
            )
            weights = (torch.einsum("hd,thd->ht", q[b, i].double(), keys) * d_k**-0.5).softmax(-1)
            torch.testing.assert_close(
                found[b, i].double(), torch.einsum("ht,thd->hd", weights, values), rtol=1e-5, atol=1e-5
            )
            assert torch.equal(held[-1].float(), torch.cat([k[b, i].flatten(), v[b, i].flatten()]))


@native
@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (7, 7), (250, 130), (3, 65)])
@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (5, 19), (16, 70)])
def test_attention_of_sentences_is_that_of_float64(d_k: int, d_v: int, n_queries: int, n_keys: int) -> None:
    q, k = random(2, n_queries, 3, d_k).transpose(1, 2), random(2, n_keys, 3, d_k, scale=2).transpose(1, 2)
    v, bias = random(2, 3, n_keys, d_v), torch.zeros(2, n_keys)
    bias[1, n_keys // 2 + 1 :] = -3e4
    found = attention.padded_attention(q, k, v, bias[:, None, None])
    weights = (q.double() @ k.double().mT * d_k**-0.5 + bias[:, None, None]).softmax(-1)
    torch.testing.assert_close(found.double(), weights @ v.double(), rtol=1e-5, atol=1e-5)


@native
def test_attention_of_a_sentence_has_the_same_bits_whatever_its_padding_is() -> None:
    q, k, v = (random(2, 4, 40, d) for d in (16, 16, 24))
    bias = torch.zeros(2, 40)
    bias[1, 23:] = -3e4
    together = attention.padded_attention(q, k, v, bias[:, None, None])[1:, :, :23]
    alone = attention.padded_attention(*(x[1:, :, :23] for x in (q, k, v)), bias[1:, None, None, :23])
    assert torch.equal(together, alone)


@native
@pytest.mark.parametrize("width", [1, 16, 50, 512])
def test_the_norm_of_a_sum_is_that_of_float64(width: int) -> None:
    x, y, norm = random(2, 3, width, scale=3) + 1, random(2, width, 3).mT, torch.nn.LayerNorm(width, eps=1e-6)
    norm.weight.data, norm.bias.data = random(width), random(width)
    with torch.no_grad():
        expected = torch.nn.functional.layer_norm(
            x.double() + y.double(), (width,), norm.weight.double(), norm.bias.double(), 1e-6
        )
        torch.testing.assert_close(rows.add_norm(x, y, norm).double(), expected, rtol=1e-5, atol=1e-5)
