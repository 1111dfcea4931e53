"""Mixtures of experts: gates and losses by hand, the sparse layer against a dense one, the contract, exact splits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from s2s.batch import make_batch
from s2s.compose import entry_config
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import UserError
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.objective import WithAuxiliary
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s.training.train_step import TrainStep
from s2s_moe import GatingConfig, MixtureConfig
from s2s_moe.gating import FlatGate, HierarchicalGate, NoisyTopK, squared_variation
from s2s_moe.layer import MixtureLayer, Tokens
from s2s_testing import VOCAB, check_arch
from s2s_testing.incremental import batch_of

if TYPE_CHECKING:
    from s2s.model import Seq2Seq

REGISTRY = load_plugins().registry
INNER = {"name": "transformer", "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 16, "n_heads": 2, "dropout": 0.0}
LSTM = {"name": "moe_lstm", "d_model": 12, "d_cell": 16, "d_expert": 20, "dropout": 0.0, "init": 0.4, "k": 2}
SIZES: dict[str, dict[str, Any]] = {
    "mixture": {"name": "mixture", "of": INNER, "d_model": 12, "n_experts": 4, "every": 1},
    "moe_lstm_hierarchy": {**LSTM, "n_experts": 9, "n_groups": 3},
    "moe_lstm_baseline": {**LSTM, "mixture": False, "n_experts": 4},
}


def config_of(name: str, **changed: Any) -> Any:
    values = {**SIZES[name], **changed}
    return entry_config(REGISTRY.get("arch", values["name"]), values, "arch")


def build(name: str, *, random_gates: bool = True, **changed: Any) -> Seq2Seq:
    torch.manual_seed(3)
    config = config_of(name, **changed)
    model = REGISTRY.get("arch", config.name).build(config, VOCAB)
    if random_gates:
        with torch.no_grad():
            for parameter, p in model.named_parameters():
                if ".gate." in parameter:
                    p.normal_()
    return model


@pytest.mark.parametrize("name", SIZES)
def test_the_architectures_keep_the_contract(name: str) -> None:
    config = config_of(name)
    check_arch(REGISTRY.get("arch", config.name), config)


@pytest.mark.parametrize("name", ["mixture", "moe_lstm_hierarchy"])
def test_step_by_step_the_same_experts_are_chosen(name: str) -> None:
    """check_arch has gates at 0, as they are initialised, and so a tie at every token."""
    model, batch = build(name).eval(), batch_of(VOCAB)
    memory = model.encode(batch.src, batch.src_pad)
    whole, state, steps = model.project(model.decode(batch.tgt_in, memory)), model.start(memory), []
    for token in batch.tgt_in.split(1, dim=1):
        logits, state = model.step(token, state)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, 1)[~batch.tgt_pad], whole[~batch.tgt_pad], rtol=1e-4, atol=1e-4)


def layer(n_groups: int, *, d: int = 6, **options: Any) -> MixtureLayer:
    torch.manual_seed(2)
    config = GatingConfig(name="x", n_experts=9, n_groups=n_groups, k=2, **options)
    experts = [nn.Sequential(nn.Linear(d, 5), nn.ReLU(), nn.Linear(5, d)) for _ in range(9)]
    made = MixtureLayer(config, d, experts)
    for p in made.gate.parameters():
        nn.init.normal_(p)
    return made


def dense(mixture: MixtureLayer, x: Tensor) -> Tensor:
    """Every expert computes every token; the gates of Shazeer's equations 1, 3 and 12, token by token."""
    out = []
    for token in x:
        if isinstance(mixture.gate, HierarchicalGate):
            outer = keep_top(token @ mixture.gate.of_groups.gate, 2)
            inner = [keep_top(token @ mixture.gate.of_experts.gate[:, a], 2) for a in range(3)]
            gates = torch.cat([outer[a] * inner[a] for a in range(3)])
        else:
            gates = keep_top(token @ mixture.gate.of_experts.gate, 2)
        out.append(sum(g * expert(token) for g, expert in zip(gates, mixture.experts, strict=True)))
    return torch.stack(out)


def keep_top(logits: Tensor, k: int) -> Tensor:
    """Softmax over the k largest, 0 elsewhere: equations 3 and 5."""
    threshold = logits.sort(descending=True).values[k - 1]
    return torch.where(logits >= threshold, logits, -math.inf).softmax(-1)


@pytest.mark.parametrize("n_groups", [0, 3], ids=["flat", "hierarchical"])
def test_the_sparse_layer_and_its_gradients_equal_a_dense_loop_over_experts(n_groups: int) -> None:
    mixture, x = layer(n_groups, noisy=False, load=0.0).double(), torch.randn(40, 6, dtype=torch.double)
    x.requires_grad_()
    weights = [x, *mixture.parameters()]
    sparse, expected = mixture(x), dense(mixture, x)
    torch.testing.assert_close(sparse, expected, rtol=1e-6, atol=1e-6)  # gates are fp32
    found = torch.autograd.grad(sparse.sin().sum(), weights)
    wanted = torch.autograd.grad(expected.sin().sum(), weights)
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


def test_the_load_is_the_probability_that_new_noise_would_choose_an_expert() -> None:
    """Equation 8 by drawing the noise of one expert 40,000 times while that of the others stays."""
    torch.manual_seed(0)
    gate = NoisyTopK(3, (5,), 2, noisy=True)
    nn.init.normal_(gate.gate)
    clean, spread, noise = torch.randn(5), torch.rand(5) + 0.5, torch.randn(5)
    noisy = clean + noise * spread
    found = gate._p_active(clean[None], noisy[None], spread[None])[0]
    for i in range(5):
        drawn = clean[i] + torch.randn(40_000) * spread[i]
        others = torch.cat([noisy[:i], noisy[i + 1 :]]).sort(descending=True).values
        assert (drawn > others[1]).float().mean().item() == pytest.approx(found[i].item(), abs=0.01)


def test_importance_and_load_are_summed_by_group_without_padding() -> None:
    torch.manual_seed(0)
    gate, x = FlatGate(3, 5, 2, noisy=True).train(), torch.randn(6, 3)
    group = torch.tensor([0, 0, 1, 2, 1, 0])  # two groups; the token of group 2 is padding
    gates = gate(x, group, 2)
    every = torch.zeros(6, 5).scatter(1, gates.experts, gates.weights)
    torch.testing.assert_close(gates.importance, torch.stack([every[[0, 1, 5]].sum(0), every[[2, 4]].sum(0)]))
    assert gates.load.sum().item() == pytest.approx(5 * 2, rel=0.4)  # about k for each token that counts


def test_hierarchical_importance_is_that_of_both_levels() -> None:
    torch.manual_seed(0)
    gate, x = HierarchicalGate(3, 9, 3, 2, noisy=True).train(), torch.randn(8, 3)
    gates = gate(x, torch.zeros(8, dtype=torch.long), 1)
    every = torch.zeros(8, 9).scatter(1, gates.experts, gates.weights)
    torch.testing.assert_close(gates.importance[0], every.sum(0))
    torch.testing.assert_close(gates.weights.sum(-1), torch.ones(8))
    assert gates.experts.shape == (8, 4)
    assert gates.load.shape == (1, 9)


def test_even_use_costs_nothing_and_one_expert_for_all_costs_most() -> None:
    rows = torch.tensor([[2.0, 2, 2, 2], [8, 0, 0, 0], [0, 0, 0, 0]])
    assert squared_variation(rows).tolist() == pytest.approx([0, 3, 0])  # E - 1 at most


PAIRS = [([4, 5, 6], [5, 6]), ([7, 4], [8, 9, 10, 4]), ([5], [4]), ([6, 6, 7, 8], [7]), ([8], [6, 5]), ([9, 5], [8])]


def gradients(model: Seq2Seq, micro_tokens: int | None) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Of one update, whose optimizer leaves them in place."""
    objective = WithAuxiliary(LabelSmoothed(LabelSmoothedConfig()), model)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    config = TrainConfig(tokens=100, micro_tokens=micro_tokens)
    result = TrainStep(config, 1, VOCAB, model.train(), objective, optimizer, lambda _: 0.0, World())(PAIRS, 1)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}, result.extras


@pytest.mark.parametrize("name", ["mixture", "moe_lstm_hierarchy"])
@pytest.mark.parametrize("micro_tokens", [12, 6])
def test_balance_losses_are_exact_however_the_batch_is_split(name: str, micro_tokens: int) -> None:
    options = {"noisy": False, "load": 0.0, "importance": 0.5, "log_experts": True}
    whole, extras = gradients(build(name, **options), None)
    split, same = gradients(build(name, **options), micro_tokens)
    without, _ = gradients(build(name, **{**options, "importance": 0.0}), None)
    assert whole.keys() == split.keys()
    for parameter, gradient in whole.items():
        torch.testing.assert_close(split[parameter], gradient, rtol=1e-4, atol=1e-6)
    linear = ["balance", *(extra for extra in extras if extra.startswith("expert_"))]
    assert [same[key] for key in linear] == pytest.approx([extras[key] for key in linear], rel=1e-5)
    assert sum(extras[key] for key in linear[1:]) == pytest.approx(1)
    gates = [parameter for parameter in whole if ".gate." in parameter]
    assert any(not torch.allclose(whole[g], without[g]) for g in gates), "the balance losses have no gradient"


def test_the_balance_loss_of_an_update_is_that_of_each_sentence_by_hand() -> None:
    model = build("mixture", noisy=False, load=0.0, importance=0.5)
    _, extras = gradients(model, None)
    batch, total, n = batch_of_pairs(), 0.0, 0
    model.train().record_auxiliary()  # type: ignore[operator]
    model(batch.src, batch.src_pad, batch.tgt_in)
    uses = model.take_auxiliary()  # type: ignore[operator]
    for i, pair in enumerate(PAIRS):
        one = batch_of_pairs(i, i + 1)
        model.record_auxiliary()  # type: ignore[operator]
        model(one.src, one.src_pad, one.tgt_in)
        total += model.take_auxiliary().loss.item()  # type: ignore[operator]
        n += 2 * (len(pair[0]) + len(pair[1]) + 2)  # mixtures in two layers of each side
    assert uses.loss.item() == pytest.approx(total, rel=1e-5)
    assert extras["balance"] == pytest.approx(total / n, rel=1e-5)


def batch_of_pairs(first: int = 0, last: int | None = None) -> Any:
    return make_batch(PAIRS[first:last], VOCAB)


def test_micro_batch_balance_is_one_group() -> None:
    pad = torch.tensor([[False, True], [False, False]])
    assert Tokens.of_sentences(pad, "micro_batch").group.tolist() == [0, 1, 0, 0]
    assert Tokens.of_sentences(pad, "sentence").group.tolist() == [0, 2, 1, 1]


@pytest.mark.parametrize(("experts", "groups", "k"), [(0, 0, 0), (32, 0, 4), (36, 6, 2)])
def test_parameters_of_the_papers_models(experts: int, groups: int, k: int) -> None:
    options = {"n_experts": experts, "n_groups": groups, "k": k} if experts else {"mixture": False}
    config = entry_config(REGISTRY.get("arch", "moe_lstm"), {"name": "moe_lstm", **options}, "arch")
    with torch.device("meta"):
        model = REGISTRY.get("arch", "moe_lstm").build(config, Vocab(src=32_000, tgt=32_000, joint=True))
    assert sum(p.numel() for p in model.parameters()) == n_parameters(experts, groups)


def n_parameters(experts: int, groups: int) -> int:
    """Of appendix E's model in closed form, with V = 32,000."""
    d, cells, inner, v = 512, 2048, 2048, 32_000
    lstm = lambda d_in, out: 4 * cells * (d_in + out + 2) + cells * out  # noqa: E731
    layers = 2 * lstm(d, d // 2) + 2 * lstm(d, d) + 2 * lstm(2 * d, d)
    mixtures = 2 * (experts * 2 * d * inner + 2 * d * (experts + groups))
    return 3 * v * d + v + layers + 2 * d * d + d + mixtures


def test_2048_experts_have_8_7_billion_parameters_as_the_paper_says() -> None:
    """Table 8."""
    assert n_parameters(2048, 32) / 1e9 == pytest.approx(8.7, abs=0.05)


def test_a_mixture_has_the_inner_models_weights_and_those_of_more_experts() -> None:
    model, d, d_ff, n = build("mixture"), 12, 16, 4
    inner = REGISTRY.get("arch", "transformer")
    alone = inner.build(entry_config(inner, {**INNER, "d_model": d}, "arch"), VOCAB)
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    expert = 2 * d * d_ff + d_ff + d
    assert count(model) == count(alone) + 4 * ((n - 1) * expert + 2 * d * n)
    more = 2 * (2 * (5 + 4) * (d * d_ff * 2 + d * n))
    assert model.forward_operations([5], [4]) == alone.forward_operations([5], [4]) + more
    experts = model.inner.get_submodule("encoder.0.feed_forward").experts
    assert not torch.equal(experts[0].inner.weight, experts[1].inner.weight)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"n_experts": 4, "k": 4}, "a gate chooses among 4"),
        ({"n_experts": 9, "n_groups": 2}, "must be a multiple of arch.n_groups=2"),
        ({"noisy": False}, "arch.load is defined by the noise"),
        ({"encoder": "layers.*"}, "arch.encoder=layers.*: with arch.every=2, no module of arch.of.name=transformer"),
        ({"encoder": "", "decoder": ""}, "nothing would be a mixture"),
        ({"of": {"d_model": 3, "name": "transformer"}}, "give it as arch.d_model"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        mixture_of({"of": INNER, **values})
    assert said in str(caught.value)


def mixture_of(values: dict[str, Any]) -> Seq2Seq:
    return REGISTRY.get("arch", "mixture").build(MixtureConfig(name="mixture", **values), VOCAB)


def test_modules_that_see_something_other_than_tokens_are_refused() -> None:
    mixture = layer(0).train()
    mixture.uses = []
    mixture.begin(torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(UserError, match="is given 4 vectors for 6 tokens"):
        mixture(torch.randn(2, 2, 6))
