"""Recurrent models keep the contract in every form that their options give; test_recurrent_cells has the equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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
from s2s import Vocab
from s2s.batch import make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import ConfigError
from s2s_recurrent import RNNConfig
from s2s_recurrent.model import RNN
from s2s_testing import check_arch

TWO: dict[str, Any] = {"n_encoder_layers": 2, "n_decoder_layers": 2}
PRESETS: dict[str, dict[str, Any]] = {
    "bahdanau": {"d_embedding": 12, "d_attention": 10, "d_readout": 9},
    "gnmt": {"n_encoder_layers": 3, "n_decoder_layers": 3, "d_attention": 10},
    "deep_att": {"n_encoder_layers": 3, "n_decoder_layers": 2, "d_embedding": 12},
    "vinyals_parser": {**TWO, "d_attention": 10},
    "rnn_tiny": {},
    "luong": TWO,
    "sutskever": TWO,
}
"""Each preset at a size for tests; what is not named is the preset's own"""
FORMS: dict[str, dict[str, Any]] = {
    "factorised": {"d_factor": 6},
    "grouped": {"n_groups": 4},
    "projected": {"d_projection": 8, "start": "tanh"},
    "both ways": {"directions": "bidirectional", "start": "tanh", "reverse_source": True, "residual_from": 2},
    "GRU": {"cell": "gru", "attention": "scaled", "n_encoder_layers": 3, "residual_from": 3},
}
QUICK = ("bahdanau", "deep_att")


def form(name: str) -> RNNConfig:
    """A preset or a form at a size for tests."""
    small = {"d_model": 16, "dropout": 0.0, "init_range": 0.4}
    if name in FORMS:
        return RNNConfig(**(small | FORMS[name]))
    return preset(name, **small, init="uniform", **PRESETS[name])


def preset(name: str, **changes: object) -> RNNConfig:
    values = [f"arch.{key}={value}" for key, value in changes.items()]
    config = compose(Config, [f"arch={name}", "task=translation", *values], plugins()).config.arch
    assert isinstance(config, RNNConfig)
    return config


def build(name: str) -> RNN:
    model = seeded("rnn", form(name))
    assert isinstance(model, RNN)
    return model


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in (*PRESETS, *FORMS)]
)
def test_the_contract_is_kept(name: str) -> None:
    check_arch(plugins().registry.get("arch", "rnn"), form(name))


@pytest.mark.parametrize("name", ["bahdanau", "vinyals_parser"])
def test_every_search_finds_outputs(name: str) -> None:
    assert_searched(build(name))


@pytest.mark.parametrize("name", ["gnmt", "luong"])
def test_it_decodes_in_an_ensemble_with_a_transformer(name: str) -> None:
    assert_ensembles(build(name))


@pytest.mark.parametrize("name", [*PRESETS, *FORMS])
def test_operations_are_what_a_counter_counts(name: str) -> None:
    assert_operations(build(name))


@pytest.mark.parametrize("name", ["bahdanau", "luong", "deep_att", "factorised"])
def test_16_and_8_bits_give_nearly_the_same(name: str) -> None:
    assert_int8(build(name))
    assert_bf16(build(name))


def cell_weights(config: RNNConfig, d_in: int) -> int:
    """Of one cell, by arithmetic: one map of input and last output to the gates, with one bias."""
    h, p = config.d_model, config.d_projection or config.d_model
    gates = (4 if config.cell == "lstm" else 3) * h
    both = d_in + p
    maps = both * config.d_factor + config.d_factor * gates if config.d_factor else both * gates // config.n_groups
    return maps + gates + (h * p if config.d_projection else 0)


@pytest.mark.parametrize("name", ["bahdanau", "luong", "sutskever", "gnmt", "vinyals_parser"])
def test_the_presets_have_as_many_parameters_as_arithmetic_says(name: str) -> None:
    c = preset(name)
    e, h, rows = c.d_embedding or c.d_model, c.d_model, (1100, 900)
    assert (
        n_parameters("rnn", c, rows)
        == sum(rows) * e
        + {
            "bahdanau": lambda: (
                (2 * cell_weights(c, e) + cell_weights(c, e + 2 * h))
                + (h * 1000 + 2 * h * 1000 + 1000 + 1000)  # W, U with its bias, v
                + (h * h + h)  # the first state
                + (h + e + 2 * h + 1) * 1000
                + 501 * rows[1]
            ),
            "luong": lambda: (
                (7 * cell_weights(c, h) + cell_weights(c, 2 * h)) + h * h + (2 * h + 1) * h + (h + 1) * rows[1]
            ),
            "sutskever": lambda: 8 * cell_weights(c, h) + (h + 1) * rows[1],
            "gnmt": lambda: (
                (2 * cell_weights(c, h) + cell_weights(c, 2 * h) + 6 * cell_weights(c, h) + 8 * cell_weights(c, 2 * h))
                + (2 * h * h + 2 * h)
                + (h + 1) * rows[1]
            ),
            "vinyals_parser": lambda: (
                (5 * cell_weights(c, h) + cell_weights(c, 3 * h)) + (2 * h * h + 2 * h) + (2 * h + 1) * rows[1]
            ),
        }[name]()
    )


def test_sutskever_has_the_papers_384_million_parameters() -> None:
    """Section 3.4: 384M with 160,000 and 80,000 words, of which 64M are recurrent connections."""
    assert round(n_parameters("rnn", preset("sutskever"), (160_000, 80_000)) / 1e6) == 384
    assert round(8 * cell_weights(preset("sutskever"), 1000) / 1e6) == 64


def test_gnmt_is_within_two_percent_of_the_count_that_was_printed() -> None:
    """278M for GNMT with 32,000 word pieces (Shazeer et al., 2017, Table 2), who do not say which biases count."""
    assert n_parameters("rnn", preset("gnmt"), (32_000, 32_000)) == pytest.approx(278e6, rel=0.02)


def test_weights_begin_as_the_papers_say() -> None:
    model = RNN(RNNConfig(d_model=32, init_range=0.08), build("luong").vocab)
    assert max(p.abs().max().item() for p in model.parameters()) <= 0.08
    assert model.softmax.weight.std().item() == pytest.approx(0.08 / 3**0.5, rel=0.1)
    model = RNN(preset("bahdanau", d_model=64), model.vocab)
    for gate in model.decoder.layers[0].hidden.weight.split(64):  # type: ignore[union-attr, operator]
        assert torch.allclose(gate @ gate.T, torch.eye(64), atol=1e-5)  # type: ignore[operator]
    assert model.softmax.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert model.decoder.attention is not None
    assert model.decoder.attention.query.weight.std().item() == pytest.approx(0.001, rel=0.1)  # type: ignore[union-attr, operator]
    assert not any(p.any() for name, p in model.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attention": "none", "readout": "none"}, "see nothing of the source"),
        ({"cell": "gru", "d_factor": 8}, "arch.cell=lstm"),
        ({"start": "final"}, "arch.directions=first be forward"),
        ({"fast_forward": True}, "arch.directions=first"),
        ({"readout": "maxout"}, "one decoder layer"),
        ({"attention_from": "first"}, "arch.readout=tanh"),
        ({"input_feeding": True, "attention_from": "first", "readout": "none"}, "arch.input_feeding"),
        ({"context_to": "all"}, "arch.context_to"),
        ({"d_factor": 8, "n_groups": 2}, "exclude"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RNNConfig(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attention": "dot", "directions": "bidirectional"}, "have no product"),
        ({"residual_from": 2}, "arch.residual_from=3"),
        ({"n_groups": 5}, "must divide"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_widths_that_do_not_fit_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        seeded("rnn", RNNConfig(**({"d_model": 16} | wrong)))


@pytest.mark.parametrize("option", ["src_word_dropout", "tgt_word_dropout"])
def test_word_dropout_changes_training_alone(option: str) -> None:
    vocab = Vocab(src=9, tgt=9)
    batch = make_batch([([4, 5, 6, 7], [8, 5, 5]), ([7], [8, 6])], vocab)

    def run(share: float, *, training: bool) -> torch.Tensor:
        torch.manual_seed(1)
        sizes: dict[str, Any] = {"d_model": 8, "dropout": 0.0, option: share}
        model = RNN(RNNConfig(name="rnn", **sizes), vocab).train(training)
        return model(batch.src, batch.src_pad, batch.tgt_in)

    assert torch.equal(run(0.5, training=False), run(0.0, training=True))
    assert not torch.equal(run(0.5, training=True), run(0.0, training=True))


def test_attention_has_one_layer() -> None:
    model, ids = build("luong"), torch.tensor([[4, 3]])
    assert build("sutskever").attention(ids, ids == 0, ids) is None
    with pytest.raises(ConfigError, match="attends once"):
        model.attention(ids, ids == 0, ids, layer=2)
