"""What followed the paper, or is compared in it: each option against its equation, and where no fast path has it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from arch_checks import (
    assert_bf16,
    assert_ensembles,
    assert_int8,
    assert_operations,
    assert_searched,
    n_parameters,
    plugins,
    seeded,
)
from torch.nn import functional as F

from s2s.backend.linear import prepack
from s2s.data.packing import pack
from s2s.errors import ConfigError
from s2s.nn.attention import KERNELS, Padded, SelfAttention
from s2s.nn.linear import Linear
from s2s_testing import VOCAB, check_arch
from s2s_testing.incremental import LENGTHS, batch_of, pairs
from s2s_transformer import TransformerConfig
from s2s_transformer.cost import forward_operations
from s2s_transformer.intermediate import intermediate
from s2s_transformer.layers import FeedForward
from s2s_transformer.restricted import Restricted
from s2s_transformer.scores import rotate

if TYPE_CHECKING:
    from s2s_transformer.model import Transformer

OPTIONS: dict[str, dict[str, Any]] = {
    "restricted": {"self_attention": "restricted", "neighbourhood": 3},
    "rotary": {"positions": "rotary"},
    "dot": {"attention_score": "dot"},
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
}
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


@pytest.mark.parametrize("name", ["restricted", "all"])
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
    assert model.packs == (name != "restricted")
    if not model.packs:
        return
    batch, packed = batch_of(VOCAB), pack(pairs(VOCAB), VOCAB)
    expected = model(batch.src, batch.src_pad, batch.tgt_in)[~batch.tgt_pad]
    torch.testing.assert_close(model(*packed.inputs)[: len(expected)], expected)


@EACH
@torch.no_grad()
def test_no_function_in_c_takes_a_step_that_it_does_not_know(name: str) -> None:
    model, batch = build(name), batch_of(VOCAB)
    prepack(model, "auto", "none")
    model.start(model.encode(batch.src, batch.src_pad))
    assert model.fused_decoder is None


@EACH
def test_no_exported_format_gets_what_it_cannot_say(name: str) -> None:
    with pytest.raises(ConfigError, match=r"exported formats have none of arch\."):
        intermediate(config(name), build(name))


@pytest.mark.parametrize("name", ["dot", "rms", "gated", "rotary"])
def test_operations_are_what_a_counter_counts(name: str) -> None:
    hidden = 2 * 3 * 5 * 5 * (2 * 16)  # a counter counts both halves of what a causal mask hides
    assert_operations(build(name, attention="math"), hidden)


def test_parameters_are_what_arithmetic_says() -> None:
    def count(name: str) -> int:
        return n_parameters("transformer", config(name, share_embeddings="target"), (50, 50))

    plain, layers = count(""), 3
    assert {count(name) for name in ("restricted", "rotary", "dot")} == {plain}
    assert count("gated") == plain + layers * (16 + 1) * 24
    assert count("rms") == plain - (2 * 1 + 3 * 2) * 16  # no biases


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
    layout = Restricted(KERNELS["math"], reach, pad, causal=causal)
    found = layout.attend(q, k, v, 0.0).transpose(1, 2)[~pad]
    full = Padded(KERNELS["math"], bias.double()).attend(q, k, v, 0.0).transpose(1, 2)[~pad]
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
    values = seen["qkv"][2].unflatten(-1, (2, -1)).transpose(1, 2)
    expected = (weights @ values).transpose(1, 2).flatten(2)
    real = ~batch.src_pad
    torch.testing.assert_close(seen["heads"][real], expected[real])
    assert len(LENGTHS) == len(weights)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"neighbourhood": 4}, "odd"),
        ({"positions": "rotary", "d_k": 3, "d_v": 3}, "even"),
        ({"positions": "rotary", "self_attention": "restricted"}, "exclude"),
    ],
    ids=["no middle", "odd width", "both"],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TransformerConfig(**wrong)
