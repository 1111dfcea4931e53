"""Convolutional models: the contract, their equations in plain loops, and what a step costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

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
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import ConfigError, DataError
from s2s_convolutional import ByteNetConfig, ConvS2SConfig
from s2s_convolutional.bytenet import Block, ByteNet
from s2s_convolutional.convs2s import ConvS2S
from s2s_convolutional.convs2s_layers import HALF
from s2s_testing import VOCAB, check_arch
from s2s_testing.incremental import batch_of

if TYPE_CHECKING:
    from s2s import Seq2Seq
    from s2s_convolutional.weight_norm import NormedLinear

SMALL: dict[str, ConvS2SConfig | ByteNetConfig] = {
    "convs2s": ConvS2SConfig(
        d_model=16, encoder_layers=[[1, 16, 3], [1, 12, 1]], decoder_layers=[[2, 16, 3], [1, 12, 2]], dropout=0.0
    ),
    "bytenet": ByteNetConfig(d_model=24, n_sets=1, dilations=[1, 2]),
}
BOTH = pytest.mark.parametrize("arch", SMALL)


def build(arch: str) -> Seq2Seq:
    return seeded(arch, SMALL[arch])


@BOTH
def test_the_contract_is_kept(arch: str) -> None:
    check_arch(plugins().registry.get("arch", arch), SMALL[arch])


@BOTH
def test_every_search_finds_outputs(arch: str) -> None:
    assert_searched(build(arch))


@BOTH
def test_it_decodes_in_an_ensemble_with_a_transformer(arch: str) -> None:
    assert_ensembles(build(arch))


@BOTH
def test_operations_are_what_a_counter_counts(arch: str) -> None:
    assert_operations(build(arch))


@BOTH
def test_16_and_8_bits_give_nearly_the_same(arch: str) -> None:
    assert_int8(build(arch))
    assert_bf16(build(arch))


@BOTH
@torch.no_grad()
def test_a_step_costs_the_same_wherever_it_stands(arch: str) -> None:
    model, batch, counts, sizes = build(arch), batch_of(VOCAB), [], []
    state = model.start(model.encode(batch.src, batch.src_pad))
    for _ in range(12):
        with FlopCounterMode(display=False) as counter:
            _, state = model.step(torch.full((4, 1), 5), state)
        counts.append(counter.get_total_flops())
        sizes.append([t.shape for t in state.hypothesis.inputs])
    assert len(set(counts)) == 1
    assert all(size == sizes[0] for size in sizes)


@torch.no_grad()
def test_convs2s_is_its_equations_in_a_loop() -> None:
    """Section 3, one position of one sentence at a time."""
    model, batch = build("convs2s"), batch_of(VOCAB)
    assert isinstance(model, ConvS2S)
    src, tgt = batch.src[0][~batch.src_pad[0]], batch.tgt_in[0]
    embedded = model.src.weight[src] + model.src_positions.weight[: len(src)]
    x = torch.stack([model.encoder_in(e) for e in embedded])
    for layer in model.encoder:
        middle = layer.kernel // 2
        rows = [gate(layer.convolution, x, t, t + middle, layer.kernel) + layer.shortcut(x[t]) for t in range(len(x))]
        x = torch.stack(rows) * HALF
    z = model.encoder_out(x)
    values = (z + embedded) * HALF
    embedded = model.tgt.weight[tgt] + model.tgt_positions.weight[: len(tgt)]
    x = model.decoder_in(embedded)
    for layer in model.decoder:
        rows = []
        for t in range(len(tgt)):
            h = gate(layer.gate.convolution, x, t, t, layer.kernel)
            weights = ((layer.query(h) + embedded[t]) * HALF @ z.T).softmax(-1)
            h = (h + layer.context(math.sqrt(len(src)) * (weights @ values))) * HALF
            rows.append((h + layer.gate.shortcut(x[t])) * HALF)
        x = torch.stack(rows)
    found = model(batch.src, batch.src_pad, batch.tgt_in)[0]
    torch.testing.assert_close(found, model.decoder_out(x))


def gate(convolution: NormedLinear, x: Tensor, t: int, last: int, kernel: int) -> Tensor:
    """v([A]) σ(v([B])) of the inputs up to `last`, zeros where there are none (equation 1)."""
    inputs = [x[s] if 0 <= s < len(x) else torch.zeros(x.size(1)) for s in range(last - kernel + 1, last + 1)]
    a, b = convolution(torch.cat(inputs)).chunk(2)
    return a * b.sigmoid()


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_a_block_of_bytenet_is_torchs_dilated_convolution(causal: bool) -> None:
    from s2s_convolutional.windows import windows

    torch.manual_seed(0)
    block, x = Block(ByteNetConfig(d_model=8), dilation=4), torch.randn(2, 11, 8)
    first, second, third = block.norms
    y = second(block.narrow(first(x).relu())).relu().mT
    weight = block.convolution.weight.unflatten(1, (3, 4)).mT  # [d, d, k]
    y = F.conv1d(F.pad(y, (8, 0) if causal else (4, 4)), weight, block.convolution.bias, dilation=4).mT
    expected = x + block.widen(third(y).relu())
    torch.testing.assert_close(block(x, lambda y: windows(y, 3, 4, causal=causal)), expected)


@torch.no_grad()
def test_bytenet_reads_the_source_column_by_column() -> None:
    """Output t depends on the columns up to t, and there are 1.2 times as many as source tokens."""
    model, batch = build("bytenet"), batch_of(VOCAB)
    assert isinstance(model, ByteNet)
    memory = model.encode(batch.src, batch.src_pad)
    lengths = [math.ceil(1.2 * n) for n in (~batch.src_pad).sum(1).tolist()]
    assert memory.hidden.any(-1).sum(1).tolist() == lengths
    before = model.decode(batch.tgt_in, memory)
    memory.hidden[:, 3] += 1
    changed = (model.decode(batch.tgt_in, memory) != before).any(-1)
    assert not changed[:, :3].any()
    assert changed[:, 3].all()


def preset(name: str) -> Any:
    return compose(Config, [f"arch={name}", "task=translation"], plugins()).config.arch


def test_convs2s_has_as_many_parameters_as_arithmetic_says() -> None:
    """A map of I inputs and O outputs has I O + 2 O: direction, length, bias."""
    d, rows, c = 768, (1000, 1200), preset("convs2s")
    widths = [512] * 9 + [1024] * 4 + [2048] * 2
    inputs, kernels = [512, *widths[:-1]], [3] * 13 + [1] * 2
    normed = lambda i, o: i * o + 2 * o  # noqa: E731
    shared = sum(
        normed(k * i, 2 * o) + (i != o) * normed(i, o) for i, o, k in zip(inputs, widths, kernels, strict=True)
    )
    attention = sum(normed(o, d) + normed(d, o) for o in widths)
    ends = 2 * (normed(d, 512) + normed(2048, d)) + normed(d, rows[1])
    assert n_parameters("convs2s", c, rows) == (sum(rows) + 2 * 1024) * d + 2 * shared + attention + ends


def test_bytenet_has_as_many_parameters_as_arithmetic_says() -> None:
    d, rows, c = 800, (300, 296), preset("bytenet")
    block = (2 * d * d + d) + (3 * d * d + d) + (d * 2 * d + 2 * d) + 2 * (2 * d + d + d)
    last = 2 * 2 * d + (2 * d * 2 * d + 2 * d) + (2 * d + 1) * rows[1]
    assert n_parameters("bytenet", c, rows) == sum(rows) * 2 * d + 2 * 30 * block + last


def test_weights_begin_as_the_paper_says() -> None:
    """Section 3.5 of ConvS2S."""
    options = {"encoder_layers": [[1, 64, 3]], "decoder_layers": [[1, 64, 3]], "dropout": 0.2}
    model = ConvS2S(ConvS2SConfig(d_model=64, **options), VOCAB)  # type: ignore[arg-type]
    convolution, query = model.decoder[0].gate.convolution, model.decoder[0].query
    assert convolution.weight_and_bias()[0].std().item() == pytest.approx(math.sqrt(4 * 0.8 / (3 * 64)), rel=0.05)
    assert query.weight_and_bias()[0].std().item() == pytest.approx(64**-0.5, rel=0.05)
    torch.testing.assert_close(query.weight_and_bias()[0], query.v)  # the length is the drawn one
    assert model.src_positions.weight.std().item() == pytest.approx(0.1, rel=0.05)
    assert not model.softmax.bias.any()


def test_the_encoders_gradient_is_divided_by_the_decoders_layers() -> None:
    """Section 3.4; the source's embeddings have all of theirs through the values."""
    batch, of = batch_of(VOCAB), {}
    for scaled in (False, True):
        model = build("convs2s").train(scaled)
        assert isinstance(model, ConvS2S)
        model(batch.src, batch.src_pad, batch.tgt_in).square().sum().backward()
        of[scaled] = model.encoder_out.v.grad
    torch.testing.assert_close(of[True] * len(model.decoder), of[False])  # type: ignore[operator]


def test_a_sentence_longer_than_the_positions_is_refused() -> None:
    layers = [[1, 4, 3]]
    model = seeded("convs2s", ConvS2SConfig(d_model=4, encoder_layers=layers, decoder_layers=layers, max_positions=3))
    src = torch.full((1, 4), 5)
    with pytest.raises(DataError, match="this model has 3 positions"):
        model.encode(src, src == VOCAB.pad)


@pytest.mark.parametrize(
    ("config", "wrong", "said"),
    [
        (ConvS2SConfig, {"encoder_layers": [[2, 8, 2]]}, "an odd one"),
        (ConvS2SConfig, {"decoder_layers": []}, "layers, width, kernel"),
        (ConvS2SConfig, {"decoder_layers": [[2, 8]]}, "layers, width, kernel"),
        (ByteNetConfig, {"d_model": 7}, "even"),
        (ByteNetConfig, {"dilations": [0]}, "from 1 on"),
    ],
    ids=["even kernel", "no layer", "no kernel", "odd width", "no distance"],
)
def test_what_cannot_be_is_refused(config: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**wrong)
