"""Recurrent layers against torch's own cells in a plain loop, and against the matrices that they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.arch_checks import seeded
from s2s_recurrent import RNNConfig
from s2s_recurrent.attention import Attention, Source
from s2s_recurrent.cells import Cell, GroupedLinear, make_cell
from s2s_recurrent.encoder import Encoder
from s2s_recurrent.model import RNN
from s2s_testing import VOCAB
from s2s_testing.incremental import batch_of

LENGTHS = torch.tensor([5, 2, 7, 1])


def cell(d_in: int = 6, **options: Any) -> Cell:
    torch.manual_seed(0)
    made = make_cell(d_in, RNNConfig(**({"d_model": 8} | options)))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def torch_cell(of: Cell) -> nn.LSTMCell | nn.GRUCell:
    """torch's own with the same weights."""
    kind = nn.LSTMCell if of.d_gates == 32 else nn.GRUCell
    theirs = kind(of.input.in_features, 8)  # type: ignore[arg-type]
    state = {"weight_ih": of.input.weight, "weight_hh": of.hidden.weight, "bias_ih": of.input.bias}
    theirs.load_state_dict({**state, "bias_hh": torch.zeros_like(of.input.bias)})  # type: ignore[arg-type]
    return theirs


def plain_loop(of: Cell, x: Tensor) -> list[Tensor]:
    """[T, I] -> states h of one sentence, by torch's cell, one token at a time."""
    theirs, state, outputs = torch_cell(of), None, []
    for vector in x:
        state = theirs(vector[None], state)
        outputs.append((state[0] if isinstance(state, tuple) else state)[0])
    return outputs


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_cell_is_torchs_cell_in_a_loop(kind: str) -> None:
    own, x = cell(cell=kind), torch.randn(4, 7, 6)
    h, _, last = own(x, own.zero(4, like=x), LENGTHS)
    for row, n in enumerate(LENGTHS.tolist()):
        expected = plain_loop(own, x[row, :n])
        torch.testing.assert_close(h[row, :n], torch.stack(expected))
        torch.testing.assert_close(last.h[row], expected[-1])


@pytest.mark.parametrize("options", [{}, {"cell": "gru"}, {"d_projection": 5}], ids=["LSTM", "GRU", "LSTMP"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "packed"])
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_torchs_kernels_for_whole_sequences_give_the_same(options: dict[str, Any], lengths: Tensor | None) -> None:
    """They serve on CUDA; here they run on the CPU."""
    own, x = cell(**options), torch.randn(4, 7, 6)
    start = own.zero(4, like=x).map(torch.randn_like)
    h, _, last = own(x, start, lengths)
    found, found_last = own.whole(x, start) if lengths is None else own._packed(x, start, lengths)
    seen = torch.arange(7) < (LENGTHS if lengths is not None else torch.full((4,), 7))[:, None]
    torch.testing.assert_close(found[seen], h[seen])
    torch.testing.assert_close(found_last, last)


@pytest.mark.parametrize(
    ("options", "called"),
    [({}, True), ({"d_model": 127}, False), ({"cell": "lstm", "d_projection": 128}, False)],
    ids=["wide", "narrow", "LSTMP"],
)
def test_wide_layers_are_one_call_on_a_cpu_with_the_loops_gradients(
    options: dict[str, Any], called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, x = cell(**({"d_model": 128, "cell": "gru"} | options)), torch.randn(2, 5, 6)
    steps: list[int] = []
    step = own.step
    monkeypatch.setattr(own, "step", lambda part, state: steps.append(1) or step(part, state))

    def outputs_and_gradients(lengths: Tensor | None) -> list[Tensor]:
        own.zero_grad()
        h = own(x, own.zero(2, like=x), lengths)[0]
        (h * torch.linspace(0, 1, h.numel()).view_as(h)).sum().backward()
        return [h.detach(), *(p.grad.clone() for p in own.parameters() if p.grad is not None)]

    found = outputs_and_gradients(None)
    assert (not steps) is called
    torch.testing.assert_close(found, outputs_and_gradients(torch.full((2,), 5)))
    assert len(steps) == (5 if called else 10), "with lengths, the loop"


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("name", ["input", "hidden"])
def test_what_is_added_to_a_map_counts_in_whole_sequences(kind: str, name: str) -> None:
    """An adapter is a hook of the map, which a call for all steps would go past."""
    own, twice, x = cell(cell=kind, d_model=128), cell(cell=kind, d_model=128), torch.randn(2, 5, 6)
    with torch.no_grad():
        for parameter in twice.get_submodule(name).parameters():
            parameter *= 2
    own.get_submodule(name).register_forward_hook(lambda _module, _given, out: 2 * out)
    torch.testing.assert_close(own(x, own.zero(2, like=x))[0], twice(x, twice.zero(2, like=x))[0])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.filterwarnings("ignore:Full backward hook is firing when gradients are computed")
def test_hooks_of_all_kinds_are_called_for_each_step(kind: str) -> None:
    for register in ("register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"):
        own, x, calls = cell(cell=kind, d_model=128), torch.randn(2, 5, 6), list[int]()
        getattr(own.hidden, register)(lambda *_, calls=calls: calls.append(1))
        own(x, own.zero(2, like=x))[0].sum().backward()
        assert len(calls) >= 4, register


def test_factors_stand_for_their_product() -> None:
    """F-LSTM: W = W2 W1 (Kuchaiev and Ginsburg, 2017, equation 5)."""
    own, plain, x = cell(d_factor=3), cell(), torch.randn(4, 7, 6)
    expand: Any = own.expand
    with torch.no_grad():
        plain.input.weight.copy_(expand.weight @ own.input.weight)  # type: ignore[operator]
        plain.hidden.weight.copy_(expand.weight @ own.hidden.weight)  # type: ignore[operator]
        plain.input.bias.copy_(expand.bias)  # type: ignore[operator]
    torch.testing.assert_close(own(x, own.zero(4, like=x))[0], plain(x, plain.zero(4, like=x))[0])


def test_groups_are_small_cells_side_by_side() -> None:
    """G-LSTM: each group's state sees its own part of input and state alone (section 2.3)."""
    own, x = cell(n_groups=2), torch.randn(4, 7, 6)
    h = own(x, own.zero(4, like=x))[0]
    assert isinstance(own.input, GroupedLinear)
    assert isinstance(own.hidden, GroupedLinear)
    for group in range(2):
        small = make_cell(3, RNNConfig(d_model=4))
        bias = own.input.bias.unflatten(0, (4, 2, 4))[:, group].flatten()  # type: ignore[union-attr]
        weights = {"input.weight": own.input.weight[group], "hidden.weight": own.hidden.weight[group]}
        small.load_state_dict({**weights, "input.bias": bias})
        found = small(x[..., 3 * group : 3 * group + 3], small.zero(4, like=x))[0]
        torch.testing.assert_close(h[..., 4 * group : 4 * group + 4], found)


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({}, 151_060_480),
        ({"d_factor": 512}, 52_494_336),
        ({"n_groups": 2}, 83_951_616),
        ({"n_groups": 4}, 50_397_184),
        ({"n_groups": 8}, 33_619_968),
    ],
    ids=["BIGLSTM", "F512", "G2", "G4", "G8"],
)
def test_two_layers_have_the_parameters_of_the_factorisation_paper(options: dict[str, int], printed: int) -> None:
    """Kuchaiev and Ginsburg (2017), Table 1: two layers of 8,192, projected to 1,024."""
    with torch.device("meta"):
        layer = make_cell(1024, RNNConfig(d_model=8192, d_projection=1024, **options))  # type: ignore[arg-type]
    assert 2 * sum(p.numel() for p in layer.parameters()) == printed


@pytest.mark.parametrize("reverse_source", [False, True])
def test_an_encoder_reads_each_sentence_both_ways(reverse_source: bool) -> None:
    options: Any = {"directions": "bidirectional", "n_encoder_layers": 1, "dropout": 0.0, "start": "tanh"}
    encoder = Encoder(RNNConfig(d_model=8, reverse_source=reverse_source, **options), 6)
    x, n = torch.randn(4, 7, 6), 7
    hidden, finals = encoder(x, torch.arange(n) >= LENGTHS[:, None])
    one, other = encoder.columns[0].layers[0].cells
    left, right = (other, one) if reverse_source else (one, other)
    for row, length in enumerate(LENGTHS.tolist()):
        forth = plain_loop(left, x[row, :length])
        back = plain_loop(right, x[row, :length].flip(0))[::-1]
        halves = (back, forth) if reverse_source else (forth, back)
        torch.testing.assert_close(hidden[row, :length], torch.cat([torch.stack(half) for half in halves], dim=-1))
        assert not hidden[row, length:].any()
        torch.testing.assert_close(finals[0].h[row], forth[-1] if reverse_source else back[0])


@pytest.mark.parametrize("score", ["additive", "dot", "general", "scaled"])
def test_attention_is_the_equation(score: str) -> None:
    """Bahdanau et al. (2015), section 3.1; Luong et al. (2015), equation 8; Vaswani et al. (2017), equation 1."""
    torch.manual_seed(0)
    attention = Attention(RNNConfig(attention=score, d_attention=5), 6, 6)  # type: ignore[arg-type]
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    memory, query = torch.randn(3, 6), torch.randn(6)
    scores = {
        "dot": lambda m: query @ m,
        "scaled": lambda m: query @ m / 6**0.5,
        "general": lambda m: query @ attention.keys(m),
        "additive": lambda m: attention.v @ (attention.query(query) + attention.keys(m)).tanh(),
    }[score]
    weights = torch.stack([scores(m) for m in memory]).softmax(0)
    padded = torch.cat([memory, torch.randn(2, 6)])[None]
    source = Source(padded, attention.keys(padded), torch.tensor([[True] * 3 + [False] * 2]))
    context, found = attention(query[None, None], source)
    torch.testing.assert_close(found[0, 0], torch.cat([weights, torch.zeros(2)]))
    torch.testing.assert_close(context[0, 0], weights @ memory)


def test_the_decoder_is_a_loop_over_torchs_cells() -> None:
    """GNMT's: the first layer's last output attends, all layers read the context, residuals from the third."""
    config = RNNConfig(
        d_model=8, n_encoder_layers=2, n_decoder_layers=3, attention="additive", attention_from="first",
        context_to="all", readout="none", residual_from=3, dropout=0.0, init_range=0.5,
    )  # fmt: skip
    model, batch = seeded("rnn", config), batch_of(VOCAB)
    assert isinstance(model, RNN)
    assert model.decoder.attention is not None
    memory = model.encode(batch.src, batch.src_pad)
    source = model.decoder.attention.source(memory)
    cells: list[Any] = [torch_cell(layer) for layer in model.decoder.layers]
    states = [(torch.zeros(4, 8), torch.zeros(4, 8)) for _ in cells]
    outputs = []
    for ids in batch.tgt_in.unbind(1):
        context = model.decoder.attention(states[0][0][:, None], source)[0][:, 0]
        x = model.tgt(ids)
        for k, theirs in enumerate(cells):
            states[k] = theirs(torch.cat([x, context], dim=-1), states[k])
            x = states[k][0] + (x if k == 2 else 0)
        outputs.append(model.softmax(x))
    found = model.project(model.decode(batch.tgt_in, memory))
    torch.testing.assert_close(found, torch.stack(outputs, dim=1))
