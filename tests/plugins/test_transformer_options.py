"""Options from after the paper, or compared in it: each against its equation, and where no fast path supports it."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from harness.arch_checks import (
    assert_bf16,
    assert_ensembles,
    assert_int8,
    assert_operations,
    assert_searched,
    n_parameters,
    plugins,
    seeded,
)
from harness.search_calls import find
from s2s.backend.linear import prepack
from s2s.data.packing import pack
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError
from s2s.nn.attention import KERNELS, Heads, PaddedLayout, SelfAttention
from s2s.nn.embedding import Sinusoids
from s2s.nn.linear import Linear
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_testing import VOCAB, check_arch
from s2s_testing.incremental import LENGTHS, batch_of, pairs
from s2s_transformer import TransformerConfig
from s2s_transformer.cost import forward_operations
from s2s_transformer.ctranslate2 import CTranslate2
from s2s_transformer.explicit import AdditiveScore, ExplicitLayout, RelativeScore
from s2s_transformer.layers import FeedForward
from s2s_transformer.marian import Marian
from s2s_transformer.restricted import RestrictedLayout
from s2s_transformer.scores import rotate
from s2s_transformer.ssru import SSRU

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.foreign import ForeignFormat
    from s2s_transformer.model import Transformer

OPTIONS: dict[str, dict[str, Any]] = {
    "restricted": {"self_attention": "restricted", "neighbourhood": 3},
    "rotary": {"positions": "rotary"},
    "dot": {"attention_score": "dot"},
    "additive": {"attention_score": "additive"},
    "relative": {"positions": "relative", "relative_distance": 2},
    "grouped": {"n_kv_heads": 1},
    "rms": {"norm_kind": "rms"},
    "gated": {"gated": True, "activation": "silu"},
    "all": {
        "positions": "rotary",
        "attention_score": "dot",
        "norm_kind": "rms",
        "gated": True,
        "activation": "silu",
        "norm": "pre",
    },
    "shared": {
        "n_heads": 4,
        "n_kv_heads": 2,
        "positions": "relative",
        "relative_distance": 1,
        "self_attention": "restricted",
        "neighbourhood": 5,
    },
    "grouped_rotary": {"n_heads": 4, "n_kv_heads": 2, "positions": "rotary"},
    "no_bias": {"bias": False},
    "ssru": {"decoder_self_attention": "ssru"},
    "relative_bias": {"positions": "relative_bias", "bias_buckets": 8, "bias_distance": 5},
    "grouped_bias": {
        "n_heads": 4,
        "n_kv_heads": 2,
        "positions": "relative_bias",
        "bias_buckets": 4,
        "bias_distance": 3,
        "attention_score": "dot",
    },
    "additive_bias": {"attention_score": "additive", "positions": "relative_bias", "bias_buckets": 4},
    "ssru_restricted": {
        "decoder_self_attention": "ssru",
        "self_attention": "restricted",
        "neighbourhood": 1,
        "bias": False,
    },
}
INPUTS: dict[str, dict[str, Any]] = {
    "embedding_norm": {"embedding_norm": True, "norm": "pre"},
    "scale_output": {"scale_output": True, "share_embeddings": "inputs"},
    "zero_start": {"zero_start": True},
    "learned": {"positions": "learned", "max_positions": 40, "position_offset": 2, "scale_positions": False},
    "sinusoid": {"positions": "sinusoid_t2t", "position_offset": 2},
}
"""Of what the layers read and write, not of the layers"""
IN_CTRANSLATE2 = ("dot", "rms", "gated", "no_bias", "relative_bias")
PADDED = (
    "restricted",
    "additive",
    "relative",
    "shared",
    "relative_bias",
    "grouped_bias",
    "additive_bias",
    "ssru_restricted",
)
IN_C = ("dot", "rms", "gated", "no_bias", "ssru", "relative_bias")
SLOW = ("dot", "rms", "gated", "rotary")
EACH = pytest.mark.parametrize("name", OPTIONS)


def config(name: str = "", **changes: object) -> TransformerConfig:
    small = {"n_encoder_layers": 1, "n_decoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 2, "dropout": 0.0}
    return TransformerConfig(**(small | OPTIONS.get(name, {}) | changes))  # type: ignore[arg-type]


def build(name: str, **changes: object) -> Transformer:
    return seeded("transformer", config(name, **changes))  # type: ignore[return-value]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in OPTIONS])
def test_the_contract_is_kept(name: str) -> None:
    check_arch(plugins().registry.get("arch", "transformer"), config(name))


@pytest.mark.parametrize("name", ["restricted", "all", "additive", "relative", "grouped"])
def test_searches_and_ensembles_take_it(name: str) -> None:
    assert_searched(build(name))
    assert_ensembles(build(name))


@EACH
def test_16_and_8_bits_give_nearly_the_same(name: str) -> None:
    assert_int8(build(name))
    assert_bf16(build(name))


@EACH
@torch.no_grad()
def test_packed_batches_give_the_same_or_are_refused(name: str) -> None:
    model = build(name)
    assert model.supports_packing == (name not in PADDED)
    if not model.supports_packing:
        return
    batch, packed = batch_of(VOCAB), pack(pairs(VOCAB), VOCAB)
    expected = model(batch.src, batch.src_pad, batch.tgt_in)[~batch.tgt_pad]
    torch.testing.assert_close(model(*packed.inputs)[: len(expected)], expected)


@pytest.mark.parametrize("options", INPUTS.values(), ids=INPUTS)
def test_options_of_inputs_and_outputs_keep_the_contract(options: dict[str, Any]) -> None:
    check_arch(plugins().registry.get("arch", "transformer"), config(**options))


@pytest.mark.parametrize("options", INPUTS.values(), ids=INPUTS)
@torch.no_grad()
def test_they_give_the_same_packed_and_by_functions_in_c(options: dict[str, Any]) -> None:
    model, prepacked = build("", **options), build("", **options)
    batch, packed = batch_of(VOCAB), pack(pairs(VOCAB), VOCAB)
    expected = model(batch.src, batch.src_pad, batch.tgt_in)[~batch.tgt_pad]
    torch.testing.assert_close(model(*packed.inputs)[: len(expected)], expected)
    prepack(prepacked, "auto", "none")
    search = BeamSearch(BeamConfig(beam=3, max_len_b=4))
    found = [find(search, m, batch.src, batch.src_pad, VOCAB) for m in (model, prepacked)]
    for ours, theirs in zip(*found, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        torch.testing.assert_close([h.score for h in ours], [h.score for h in theirs])


@torch.no_grad()
def test_options_of_inputs_are_their_equations() -> None:
    batch = batch_of(VOCAB)
    offset_options = {"positions": "sinusoid_t2t", "position_offset": 3}
    plain, zero = build(""), build("", zero_start=True)
    offset, normed = build("", **offset_options), build("", embedding_norm=True)
    embedded, position = plain.embeddings.target(batch.tgt_in), torch.arange(batch.tgt_in.size(1))
    vectors = Sinusoids(16, "paper")(position, torch.float32)
    memory = plain.encode(batch.src, batch.src_pad)

    def read(model: Transformer) -> Tensor:
        return model.target_input(batch.tgt_in, memory)[0]

    torch.testing.assert_close(read(plain), embedded + vectors)
    without = torch.cat([torch.zeros_like(embedded[:, :1]), embedded[:, 1:]], dim=1)
    torch.testing.assert_close(read(zero), without + vectors)
    torch.testing.assert_close(read(offset), embedded + Sinusoids(16, "t2t")(position + 3, torch.float32))
    torch.testing.assert_close(read(normed), F.layer_norm(embedded + vectors, [16], eps=1e-6))


@torch.no_grad()
def test_a_recurrent_unit_is_its_equation() -> None:
    """Kim et al. (2019), position by position."""
    torch.manual_seed(0)
    unit, x = SSRU(6, bias=True).double(), torch.randn(2, 11, 6, dtype=torch.float64)
    c, expected = torch.zeros(2, 6, dtype=torch.float64), []
    for t in range(11):
        f = 1 / (1 + (-(x[:, t] @ unit.forget.weight.T + unit.forget.bias)).exp())
        c = f * c + (1 - f) * (x[:, t] @ unit.inner.weight.T)
        expected.append(c.clamp(min=0))
    torch.testing.assert_close(unit(x, PaddedLayout(KERNELS["math"], causal=True)), torch.stack(expected, dim=1))


@EACH
@torch.no_grad()
@pytest.mark.skipif(not has_linear(), reason=native_library().reason)
def test_no_function_in_c_takes_a_step_that_it_does_not_know(name: str) -> None:
    model, batch = build(name), batch_of(VOCAB)
    prepack(model, "native", "none")
    model.start(model.encode(batch.src, batch.src_pad))
    assert (model.fused_decoder is not None) == (name in IN_C)


@pytest.mark.parametrize(
    ("form", "name"),
    [(CTranslate2, name) for name in OPTIONS if name not in IN_CTRANSLATE2] + [(Marian, name) for name in OPTIONS],
)
def test_a_format_names_what_it_cannot_express(form: type[ForeignFormat], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^arch\..*{form.title} has only "):
        form().write_options(config(name))


@pytest.mark.parametrize(
    "name", ["dot", "rms", "gated", "rotary", "additive", "relative", "grouped", "ssru", "relative_bias"]
)
def test_operations_are_what_a_counter_counts(name: str) -> None:
    hidden = 2 * 3 * 5 * 5 * (2 * 16)  # a counter counts both halves of what a causal mask hides
    assert_operations(build(name, attention="math"), 0 if name == "ssru" else hidden)


def test_parameters_are_what_arithmetic_says() -> None:
    def count(name: str) -> int:
        return n_parameters("transformer", config(name, share_embeddings="target"), (50, 50))

    plain, layers = count(""), 3
    assert {count(name) for name in ("restricted", "rotary", "dot")} == {plain}
    assert count("gated") == plain + layers * (16 + 1) * 24
    assert count("rms") == plain - (2 * 1 + 3 * 2) * 16  # no biases
    assert count("additive") == plain + 5 * 16  # u of each head of five attentions
    assert count("relative") == plain + layers * 2 * 5 * 8
    assert count("grouped") == plain - 5 * 2 * (16 + 1) * 8  # one head of keys and of values less


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 7, 45])
@pytest.mark.parametrize("reach", [0, 2, 20])
@torch.no_grad()
def test_restricted_is_full_attention_with_a_mask(causal: bool, length: int, reach: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, length, 4, dtype=torch.float64) for _ in range(3))
    pad = torch.arange(length) >= torch.tensor([length, max(length - 3, 1), 1])[:, None]
    t = torch.arange(length)
    allowed = ((t[:, None] - t).abs() <= reach) & (t <= t[:, None] if causal else True) & ~pad[:, None]
    bias = ~allowed[:, None] * -3e4
    layout = RestrictedLayout(KERNELS["math"], reach, pad, causal=causal)
    found = layout.attend(q, k, v, 0.0).transpose(1, 2)[~pad]
    full = PaddedLayout(KERNELS["math"], bias.double()).attend(q, k, v, 0.0).transpose(1, 2)[~pad]
    torch.testing.assert_close(found, full)
    assert torch.equal((layout.bias == 0)[:, 0][~pad], allowed[~pad])


@torch.no_grad()
def test_a_neighbourhood_as_wide_as_the_sentence_is_full_attention() -> None:
    batch = batch_of(VOCAB)
    wide, full = build("restricted", neighbourhood=15), build("")
    wide.load_state_dict(full.state_dict())
    given = batch.src, batch.src_pad, batch.tgt_in
    torch.testing.assert_close(wide(*given), full(*given))
    narrow = build("restricted", neighbourhood=1)
    narrow.load_state_dict(full.state_dict())
    assert not torch.allclose(narrow(*given), full(*given))


def test_restricted_operations_grow_with_the_length() -> None:
    """By r n d: twice as long costs twice as much, less the ends' part."""
    settings = config("restricted", neighbourhood=5)
    pairs_seen = lambda n, before, after: sum(1 for i in range(n) for j in range(n) if -before <= j - i <= after)  # noqa: E731
    wide = dataclasses.replace(settings, self_attention="full")
    n, heads = 40, 2 * 16
    difference = forward_operations(wide, VOCAB, [n], [n]) - forward_operations(settings, VOCAB, [n], [n])
    encoder, decoder = n * n - pairs_seen(n, 2, 2), n * n / 2 - pairs_seen(n, 2, 0)
    assert difference == 2 * heads * (encoder + 2 * decoder)


@torch.no_grad()
def test_dot_is_the_scaled_one_with_queries_that_are_longer() -> None:
    batch, dot, scaled = batch_of(VOCAB), build("dot"), build("")
    dot.load_state_dict(scaled.state_dict())
    for layer in [*scaled.encoder, *scaled.decoder]:
        layer.attention.qkv.weight[:16] *= 8**0.5
        layer.attention.qkv.bias[:16] *= 8**0.5
    for layer in scaled.decoder:
        layer.cross_attention.q.weight *= 8**0.5
        layer.cross_attention.q.bias *= 8**0.5
    given = batch.src, batch.src_pad, batch.tgt_in
    torch.testing.assert_close(dot(*given), scaled(*given))


def test_a_rotation_is_a_product_of_complex_numbers_and_scores_know_the_distance_alone() -> None:
    """Su et al. (2021), equations 12 and 34."""
    torch.manual_seed(0)
    q, k, t = torch.randn(5, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64), torch.arange(5)
    turn = torch.polar(torch.ones(5, 4, dtype=torch.float64), t[:, None] * 10_000 ** (-torch.arange(4).double() / 4))
    expected = torch.view_as_real(torch.view_as_complex(q.unflatten(-1, (4, 2))) * turn).flatten(-2)
    torch.testing.assert_close(rotate(q, t), expected)
    torch.testing.assert_close(rotate(q, t) @ rotate(k, t).T, rotate(q, t + 7) @ rotate(k, t + 7).T)


@torch.no_grad()
def test_an_additive_score_is_its_equation() -> None:
    """Bahdanau et al. (2015), section A.1.2, position by position."""
    torch.manual_seed(0)
    heads = Heads(2, 3, 4)
    score = AdditiveScore(heads).double()
    q, k, v = (torch.randn(1, 2, n, d).double() for n, d in ((4, 3), (5, 3), (5, 4)))
    expected = torch.empty(1, 2, 4, 4, dtype=torch.float64)
    for h, t in itertools.product(range(2), range(4)):
        weights = torch.stack([score.u[h] @ (q[0, h, t] + k[0, h, s]).tanh() for s in range(5)]).softmax(0)
        expected[0, h, t] = weights @ v[0, h]
    found = ExplicitLayout(PaddedLayout(KERNELS["math"]), score).attend(q, k, v, 0.0)
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_relative_positions_are_their_equations() -> None:
    """Shaw et al. (2018), equations 3 and 4, position by position, causal."""
    torch.manual_seed(0)
    score = RelativeScore(Heads(2, 3, 4), reach=2).double()
    q, k, v = (torch.randn(1, 2, 6, d, dtype=torch.float64) for d in (3, 3, 4))
    expected = torch.empty(1, 2, 6, 4, dtype=torch.float64)
    for h, t in itertools.product(range(2), range(6)):
        rows = [max(-2, min(2, s - t)) + 2 for s in range(t + 1)]
        e = torch.stack([q[0, h, t] @ (k[0, h, s] + score.keys[row]) / 3**0.5 for s, row in enumerate(rows)])
        read = torch.stack([v[0, h, s] + score.values[row] for s, row in enumerate(rows)])
        expected[0, h, t] = e.softmax(0) @ read
    found = ExplicitLayout(PaddedLayout(KERNELS["math"], causal=True), score).attend(q, k, v, 0.0)
    torch.testing.assert_close(found, expected)


@torch.no_grad()
@pytest.mark.parametrize("name", ["grouped", "grouped_rotary"])
def test_shared_keys_are_a_model_whose_heads_have_equal_keys(name: str) -> None:
    """Ainslie et al. (2023): the full model with each shared head repeated."""
    grouped, batch = build(name), batch_of(VOCAB)
    full = build(name, n_kv_heads=None)
    n, width = grouped.config.n_heads // heads_of_keys(grouped), 16 // grouped.config.n_heads
    repeat = lambda x: x.unflatten(0, (-1, width)).repeat_interleave(n, dim=0).flatten(0, 1)  # noqa: E731
    weights = grouped.state_dict()
    for key, weight in weights.items():
        if ".qkv." in key:
            q, kv = weight[:16], weight[16:].chunk(2)
            weights[key] = torch.cat([q, *map(repeat, kv)])
        elif ".kv." in key:
            weights[key] = torch.cat([*map(repeat, weight.chunk(2))])
    full.load_state_dict(weights)
    given = batch.src, batch.src_pad, batch.tgt_in
    torch.testing.assert_close(grouped(*given), full(*given))
    nodes = [model.start(model.encode(*given[:2])).nodes[0].size(-1) for model in (grouped, full)]  # type: ignore[attr-defined]
    assert nodes[0] * n == nodes[1]  # the cache is as much smaller


def heads_of_keys(model: Transformer) -> int:
    assert model.config.n_kv_heads
    return model.config.n_kv_heads


@torch.no_grad()
def test_a_gated_layer_is_its_equation() -> None:
    """Shazeer (2020), equation 6, with biases."""
    torch.manual_seed(0)
    layer, x = FeedForward(config("gated")), torch.randn(3, 16)
    assert isinstance(layer.gate, Linear)
    expected = layer.out(F.silu(layer.inner(x)) * layer.gate(x))
    torch.testing.assert_close(layer(x), expected)


@torch.no_grad()
def test_rms_divides_by_the_root_of_the_mean_square() -> None:
    """Zhang and Sennrich (2019), equation 4."""
    model, x = build("rms", norm="pre"), torch.randn(3, 16)
    weight = model.encoder_norm.weight.fill_(2.0)  # type: ignore[operator, union-attr]
    torch.testing.assert_close(model.encoder_norm(x), weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())


@EACH
@torch.no_grad()
def test_maps_of_attention_are_those_of_the_option(name: str) -> None:
    """Weights times values give what the layer gave."""
    model, batch = build(name), batch_of(VOCAB)
    maps = model.attention_maps(batch.src, batch.src_pad, batch.tgt_in)
    weights = next(m.weights for m in maps if m.kind == "encoder")
    seen: dict[str, Any] = {}
    attention = model.encoder[0].attention
    assert isinstance(attention, SelfAttention)
    with pytest.MonkeyPatch.context() as patch:
        of_v = attention.qkv.forward
        patch.setattr(attention.qkv, "forward", lambda x: seen.setdefault("qkv", of_v(x)))
        hook = attention.out.register_forward_pre_hook(lambda _, given: seen.update(heads=given[0]))
        model.encode(batch.src, batch.src_pad)
        hook.remove()
    values = seen["qkv"][2].unflatten(-1, (attention.heads.n_kv_heads, -1)).transpose(1, 2)
    values = values.repeat_interleave(weights.size(1) // values.size(1), dim=1)
    distance = torch.arange(weights.size(-1)) - torch.arange(weights.size(-1))[:, None]
    score = getattr(attention, "score", None)
    read = (
        weights @ values if score is None else score.read(weights, values, distance[None].expand(len(weights), -1, -1))
    )
    expected = read.transpose(1, 2).flatten(2)
    real = ~batch.src_pad
    torch.testing.assert_close(seen["heads"][real], expected[real])
    assert len(LENGTHS) == len(weights)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"neighbourhood": 4}, "odd"),
        ({"positions": "rotary", "d_k": 3, "d_v": 3}, "even"),
        ({"positions": "rotary", "self_attention": "restricted"}, "exclude"),
        ({"positions": "rotary", "attention_score": "additive"}, "exclude"),
        ({"n_kv_heads": 3}, "multiple of"),
        ({"n_kv_heads": 0}, "at least 1"),
        ({"positions": "relative_bias", "bias_buckets": 7}, "even"),
        ({"positions": "relative_bias", "bias_buckets": 2}, "at least 4"),
        ({"positions": "relative_bias", "bias_buckets": 8, "bias_distance": 4}, "more than half"),
        ({"positions": "relative_bias", "self_attention": "restricted"}, "exclude"),
    ],
    ids=[
        "no middle",
        "odd width",
        "rotary and restricted",
        "rotary and additive",
        "uneven groups",
        "no keys",
        "odd buckets",
        "two buckets",
        "no ranges",
        "relative_bias and restricted",
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TransformerConfig(**wrong)
