"""The Transformer's initial weights, dropouts and limits; test_transformer_equations has its equations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from s2s import Vocab
from s2s.batch import make_batch
from s2s.errors import ConfigError, DataError
from s2s.model import Seq2Seq
from s2s.nn import LabelSmoothedConfig
from s2s.nn.attention import KERNELS, CrossAttention, PaddedLayout, SelfAttention
from s2s.nn.dropout import Dropout
from s2s.nn.loss import LabelSmoothed
from s2s.plugin import load_plugins
from s2s_transformer import TransformerConfig
from s2s_transformer.attention_weights import layer_number
from s2s_transformer.initialization import init_weights
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=17, tgt=17, joint=True)
PAIRS = [([4, 5, 6, 7], [8, 9, 10]), ([11], [12, 13, 14, 15, 16]), ([5, 5, 8], [4])]
SUBLAYERS = [
    ("encoder", "attention"),
    ("encoder", "feed_forward"),
    ("decoder", "attention"),
    ("decoder", "cross_attention"),
    ("decoder", "feed_forward"),
]


def tiny(**changes: object) -> TransformerConfig:
    values = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 8, "d_ff": 12, "n_heads": 2, "dropout": 0.0}
    return TransformerConfig(**{**values, **changes})  # type: ignore[arg-type]


def build(config: TransformerConfig) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config, VOCAB).eval()


def test_beams_share_one_copy_of_the_source() -> None:
    """What belongs to the sentence does not grow with the beam."""
    model = build(tiny())
    batch = make_batch(PAIRS, VOCAB)
    state = model.start(model.encode(batch.src, batch.src_pad))
    _, state = model.step(torch.full((3, 1), VOCAB.bos), state)
    wide = state.reorder(torch.zeros(3, 5, dtype=torch.long))
    logits, wider = model.step(torch.arange(15).view(3, 5), wide)
    assert logits.shape == (3, 5, VOCAB.tgt)
    assert wider.sentence[0][0].k.data_ptr() == state.sentence[0][0].k.data_ptr()
    assert wider.hypothesis[..., :2].tolist() == [[[0, 1 + k] for k in range(5)]] * 3  # paths of nodes, [B, K, t]


@pytest.mark.parametrize("attention", ["sdpa", "math"])
def test_a_source_of_nothing_but_padding_gives_no_nan(attention: str) -> None:
    model = build(tiny(attention=attention))
    src = torch.tensor([[4, 5, VOCAB.eos], [0, 0, 0]])
    hidden = model(src, src == 0, torch.tensor([[2, 4], [2, 5]]))
    hidden.square().sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_source_without_any_position_gives_no_nan() -> None:
    """No task makes one, since a source ends in eos; a caller may."""
    model = build(tiny())
    nothing = torch.zeros(2, 0, dtype=torch.long)
    hidden = model(nothing, nothing.bool(), torch.tensor([[2, 4], [2, 5]]))
    assert hidden.isfinite().all()


def test_padding_gets_no_gradient_through_its_embedding() -> None:
    model = build(tiny(share_embeddings="none"))
    batch = make_batch(PAIRS, VOCAB)
    LabelSmoothed(LabelSmoothedConfig())(model, batch).loss.backward()
    assert not model.embeddings.src.grad[VOCAB.pad].any()  # type: ignore[union-attr]


def test_weights_begin_as_they_should() -> None:
    torch.manual_seed(0)
    model = Transformer(tiny(d_model=64, d_ff=128, n_heads=4), Vocab(src=2000, tgt=2000, joint=True))
    table = model.embeddings.shared
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert not table[VOCAB.pad].any()
    layer = model.decoder[0]
    assert layer.cross_attention is not None
    for weight in (*layer.attention.qkv.weight.split(64), *layer.cross_attention.kv.weight.split(64)):
        bound = math.sqrt(6 / (64 + 64))  # Glorot and Bengio (2010), of each map for itself
        assert 0.97 * bound < weight.abs().max().item() <= bound
    assert torch.equal(layer.attention_residual.norm.weight, torch.ones(64))
    assert not any(p.any() for name, p in model.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_a_model_built_on_meta_is_the_same_model(positions: str) -> None:
    config = tiny(positions=positions)
    with torch.device("meta"):
        model = Transformer(config, VOCAB)
    model.to_empty(device="cpu")
    torch.manual_seed(7)
    init_weights(model)
    torch.manual_seed(7)
    built = Transformer(config, VOCAB)
    init_weights(built)  # after construction, which draws numbers, too
    torch.manual_seed(7)
    init_weights(built)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), built.parameters(), strict=True))
    batch = make_batch(PAIRS, VOCAB)
    assert torch.equal(*(m.eval()(batch.src, batch.src_pad, batch.tgt_in) for m in (model, built)))


def test_each_tensor_is_saved_once() -> None:
    state = build(tiny()).state_dict()
    assert len({t.data_ptr() for t in state.values()}) == len(state)
    assert [name for name in state if name.startswith("embeddings")] == ["embeddings.shared"]


def test_dropout_changes_training_only() -> None:
    model = build(tiny(dropout=0.5, attention_dropout=0.5, relu_dropout=0.5))
    batch = make_batch(PAIRS, VOCAB)
    run = lambda: model(batch.src, batch.src_pad, batch.tgt_in)  # noqa: E731
    assert torch.equal(run(), run())
    model.train()
    assert not torch.equal(run(), run())


def test_each_dropout_stands_in_its_place() -> None:
    config = tiny(dropout=0.1, attention_dropout=0.2, relu_dropout=0.3)
    model = Transformer(config, VOCAB)
    for name, module in model.named_modules():
        if type(module) is Dropout:
            assert module.p == (0.3 if "feed_forward.dropout" in name and "residual" not in name else 0.1), name
        if isinstance(module, SelfAttention | CrossAttention):
            assert module.dropout == 0.2
    residual = [f"{side}.{i}.{part}_residual.dropout" for i in (0, 1) for side, part in SUBLAYERS]
    inner = [f"{side}.{i}.feed_forward.dropout" for i in (0, 1) for side in ("encoder", "decoder")]
    assert {n for n, m in model.named_modules() if type(m) is Dropout} == {"dropout", *residual, *inner}


def test_residual_dropout_is_on_a_sublayers_output_before_the_sum_and_on_the_embeddings() -> None:
    """With next to nothing let through, a layer only normalises what it is given, and is given zeros."""
    model = Transformer(tiny(dropout=1 - 1e-12), VOCAB).train()
    layer, x = model.encoder[0], torch.randn(2, 3, 8)
    expected = layer.feed_forward_residual.norm(layer.attention_residual.norm(x))
    assert torch.equal(layer(x, PaddedLayout(KERNELS["math"])), expected)
    given: list[torch.Tensor] = []
    layer.register_forward_pre_hook(lambda _, arguments: given.append(arguments[0]))
    src = torch.tensor([[4, 5, 3]])
    model.encode(src, src == 0)
    assert not given[0].any()


@pytest.mark.parametrize("training", [True, False])
def test_attention_dropout_reaches_the_kernel_in_training_only(*, training: bool) -> None:
    seen: list[float] = []

    def spy(*arguments: Any) -> torch.Tensor:
        seen.append(arguments[-1])
        return KERNELS["math"](*arguments)

    model = Transformer(tiny(attention_dropout=0.2), VOCAB).train(training)
    model.kernel = spy
    batch = make_batch(PAIRS, VOCAB)
    model(batch.src, batch.src_pad, batch.tgt_in)
    assert seen == [0.2 * training] * (2 + 2 * 2)


def test_a_sentence_longer_than_the_learned_positions_is_an_error_that_says_what_to_do() -> None:
    model = build(tiny(positions="learned", max_positions=4))
    assert model.max_len == 4
    src = torch.full((1, 5), 6)
    with pytest.raises(DataError, match=r"5 tokens.* 4 positions .*arch.max_positions"):
        model.encode(src, src == 0)


def test_sinusoids_reach_as_far_as_a_sentence_does() -> None:
    model = build(tiny())
    src = torch.full((1, 3000), 6)
    assert model.max_len is None
    assert model.encode(src, src == 0).hidden.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 3}, r"arch.d_model=8 must be a multiple of arch.n_heads=3"),
        ({"dropout": 1.0}, r"arch.dropout=1.0 must be"),
        ({"n_decoder_layers": 0}, r"arch.n_decoder_layers=0 must be at least 1"),
        ({"d_model": 9, "n_heads": 3}, r"arch.d_model=9 must be even"),
    ],
)
def test_impossible_sizes_are_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny(**changes)


def test_sharing_needs_a_joint_vocabulary() -> None:
    with pytest.raises(ConfigError, match=r"share_embeddings=shared needs one vocabulary.*target or none"):
        Transformer(tiny(), Vocab(src=10, tgt=12))


@pytest.mark.parametrize("chunk", [None, 0])
def test_forward_and_loss_compile_into_one_graph(chunk: int | None) -> None:
    model, batch = build(tiny()), make_batch(PAIRS, VOCAB)
    loss = LabelSmoothed(LabelSmoothedConfig(chunk=chunk))
    eager = loss(model, batch)
    eager.loss.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")(model, batch)
    compiled.loss.backward()
    assert torch.allclose(compiled.loss, eager.loss)
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.allclose(p.grad, gradient, atol=1e-5)  # type: ignore[arg-type]


def test_it_is_a_seq2seq_as_registered() -> None:
    entry = load_plugins().registry.get("arch", "transformer")
    assert isinstance(entry.build(tiny(), VOCAB), Seq2Seq)


@pytest.mark.parametrize(("n_layers", "layer"), [(1, 1), (2, 2), (3, 2), (6, 5)])
def test_alignments_are_of_the_last_layer_but_one_and_not_of_the_first(n_layers: int, layer: int) -> None:
    assert layer_number(None, n_layers) == layer
    assert layer_number(1, n_layers) == 1
