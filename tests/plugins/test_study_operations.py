"""Operations counted while a model runs equal their closed form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from s2s import Example, Vocab
from s2s.compose import entry_config
from s2s.plugin import load_plugins
from s2s_memory_networks import MemoryNetworkConfig
from s2s_memory_networks.model import MemoryNetwork
from s2s_parsing.linear import Action, Kind
from s2s_parsing.stack_guide import StackGuide
from s2s_rnng import RNNGConfig
from s2s_rnng.model import RNNG
from s2s_study.evaluation import counted_operations
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from s2s import Seq2Seq

PAIRS = [([4, 5, 6], [5, 6]), ([7, 4], [8, 9, 10, 4]), ([5], [4])]


def counted(model: Seq2Seq, vocab: Vocab, pairs: list[tuple[list[int], list[int]]]) -> float:
    """Of one forward pass over all pairs."""
    task: Any = SimpleNamespace(encode=lambda examples: pairs[: len(examples)], vocab=vocab)
    found = counted_operations(model, task, [Example("", "")] * len(pairs))
    assert found is not None
    return found * sum(len(tgt) + 1 for _, tgt in pairs) / 3


@pytest.mark.parametrize(
    ("name", "sizes", "hidden"),
    [
        ("transformer", {"d_model": 12, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 1}, 0.5),
        ("rnn", {"d_model": 12, "attention": "general"}, 0.0),
    ],
)
def test_the_count_is_the_closed_form_of_architectures_that_have_one(
    name: str, sizes: dict[str, Any], hidden: float
) -> None:
    """But what runs computes the half of a decoder's scores that the mask hides, and its products with values."""
    entry = load_plugins().registry.get("arch", name)
    torch.manual_seed(1)
    model = entry.build(entry_config(entry, sizes, "arch"), VOCAB).eval()
    src, tgt = ([len(pair[side]) + 1 for pair in PAIRS] for side in (0, 1))
    masked = hidden * 4 * 12 * sum(length**2 for length in tgt)
    assert counted(model, VOCAB, PAIRS) == model.forward_operations(src, tgt) + masked


def test_a_grammar_with_a_stack_is_counted_bracket_by_bracket() -> None:
    """(S (S * * )): two words, two brackets of two children and of one, six actions after the first."""
    actions = [Action(Kind.WORD), Action(Kind.OPEN, "S"), Action(Kind.CLOSE)]
    guide = StackGuide([None] * 4 + [actions[i % 3] for i in range(VOCAB.tgt - 4)], depth=40)
    vocab = Vocab(src=VOCAB.src, tgt=VOCAB.tgt, guide=guide)
    model = RNNG(RNNGConfig(d_model=12, d_item=10, d_word=9, d_action=7, n_layers=2, dropout=0.0), vocab).eval()
    assert model.forward_operations([3], [7]) is None
    weights = lambda module: sum(p.numel() for p in module.parameters() if p.dim() == 2)  # noqa: E731
    total = 3 * (weights(model.word_item) + weights(model.buffer))  # two words and eos
    total += 7 * (weights(model.history) + weights(model.summary) + weights(model.softmax))
    total += 7 * weights(model.stack)  # the guard, two words, two brackets opened, and closed
    both = weights(model.compose.forwards) + weights(model.compose.backwards)
    total += (3 + 2) * both + 2 * weights(model.compose.out)  # each label with its children
    assert counted(model, vocab, [([4, 5], [5, 5, 4, 4, 6, 6])]) == 2 * total


@pytest.mark.parametrize("tying", ["adjacent", "layerwise"])
def test_a_memory_network_is_counted_hop_by_hop(tying: str) -> None:
    """Sums of a unit's tokens by each table; each hop's match and answer; what stands between hops; the softmax."""
    vocab = Vocab(src=12, tgt=12, joint=True, word_begins=[i == 4 for i in range(12)])  # token 4 begins a unit
    pairs = [([4, 5, 6, 7, 4, 8, 6, 4, 7, 8], [5]), ([4, 9, 4, 7], [8, 9, 10])]
    d, n_hops = 8, 3
    model = MemoryNetwork(MemoryNetworkConfig(d_model=d, n_hops=n_hops, noise=0.0, tying=tying), vocab).eval()
    total = 0
    for src, tgt in pairs:
        n_units, n_src, n_tgt = src.count(4) + 1, len(src) + 1, len(tgt) + 1  # eos is a unit
        total += (n_hops + 1 if tying == "adjacent" else 3) * n_units * n_src * d
        total += n_hops * 2 * n_tgt * n_units * d
        total += n_hops * n_tgt * d * d if tying == "layerwise" else 0
        total += n_tgt * d * vocab.tgt
    assert model.forward_operations([4], [1]) is None
    assert counted(model, vocab, pairs) == 2 * total


def test_without_examples_nothing_is_known() -> None:
    task: Any = SimpleNamespace(encode=lambda examples: examples, vocab=VOCAB)
    assert counted_operations(nn.Module(), task, []) is None  # type: ignore[arg-type]
