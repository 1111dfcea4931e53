"""Architectures that see the position of their output in the source, and sources whose words have several tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.arch_checks import plugins
from harness.monotonic_guide import guided
from s2s import ConfigError, Vocab, make_batch
from s2s.nn import SourceWords
from s2s_recurrent import RNNConfig
from s2s_testing import VOCAB, check_arch
from s2s_transformer import TransformerConfig

if TYPE_CHECKING:
    from s2s import Choice, Seq2Seq

SMALL: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "dropout": 0.0}
TRANSFORMER: dict[str, Any] = {**SMALL, "d_ff": 16, "n_heads": 2, "norm": "pre"}
RNN: dict[str, Any] = {**SMALL, "directions": "bidirectional", "init_range": 0.4}
POINTERS: dict[str, Any] = {"attention": "none", "readout": "none", "words": "pooled"}
FORMS: dict[str, tuple[str, Choice]] = {
    "transformer, stack": ("transformer", TransformerConfig(**TRANSFORMER, guide="stack")),
    "transformer, no attention, parts": (
        "transformer",
        TransformerConfig(**TRANSFORMER, guide="stack", cross_attention="none", words="pooled"),
    ),
    "transformer, parts": ("transformer", TransformerConfig(**TRANSFORMER, words="pooled")),
    "rnn, words": ("rnn", RNNConfig(**RNN, guide="words")),
    "rnn, no attention, parts": ("rnn", RNNConfig(**RNN, **POINTERS, guide="stack")),
}
QUICK = ("transformer, no attention, parts", "rnn, no attention, parts")


def build(name: str, vocab: Vocab) -> Seq2Seq:
    torch.manual_seed(1)
    arch, config = FORMS[name]
    model: Seq2Seq = plugins().registry.get("arch", arch).build(config, vocab)
    return model


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in FORMS])
def test_the_contract_is_kept(name: str) -> None:
    """Looking ahead, padding, neighbours, step against decode, reordering, joining, saving, learning."""
    arch, config = FORMS[name]
    check_arch(plugins().registry.get("arch", arch), config, guided(VOCAB, parts="parts" in name))


def test_a_guide_is_asked_for_only_where_the_task_has_one() -> None:
    with pytest.raises(ConfigError, match="this task has no guide"):
        build("rnn, words", VOCAB)
    with pytest.raises(ConfigError, match="would see nothing of the source"):
        TransformerConfig(cross_attention="none")


def test_a_word_is_its_first_token_and_its_parts() -> None:
    vocab = Vocab(src=10, tgt=4, word_begins=[False] * 4 + [True] * 3 + [False] * 3)
    src = torch.tensor([[4, 7, 8, 9, 5, 3, 0], [6, 7, 3, 0, 0, 0, 0]])
    table = torch.randn(10, 3)
    x, pad = SourceWords(vocab).pool(table, src, src == vocab.pad)
    assert pad.tolist() == [[False, False, False], [False, False, True]]
    assert torch.allclose(x[0, 0], table[4] + (table[7] + table[8] + table[9]) / 3**0.5)
    assert torch.allclose(x[0, 1:], table[[5, 3]])
    assert torch.allclose(x[1], torch.stack([table[6] + table[7], table[3], torch.zeros(3)]))


def test_states_and_weights_of_words_stand_at_their_first_tokens() -> None:
    vocab = Vocab(src=10, tgt=4, word_begins=[False] * 4 + [True] * 3 + [False] * 3)
    words, src = SourceWords(vocab), torch.tensor([[4, 7, 5, 3], [6, 3, 0, 0]])
    hidden = torch.randn(2, 4, 3)
    states = words.states(hidden, src, src == 0)
    assert torch.equal(states[0], hidden[0, [0, 2, 3]])
    assert torch.equal(states[1, :2], hidden[1, :2])
    weights = torch.rand(2, 5, 3)
    spread = words.spread(weights, src, src == 0)
    assert torch.equal(spread[0][:, [0, 2, 3]], weights[0])
    assert not spread[0][:, 1].any()
    assert torch.equal(spread[1][:, :2], weights[1][:, :2])
    assert not spread[1][:, 2:].any()


def test_training_tokens_become_unknown_as_often_as_the_vocabulary_says() -> None:
    vocab = Vocab(src=6, tgt=4, unknown=[0.0] * 5 + [0.25])
    words, table = SourceWords(vocab), torch.arange(6.0)[:, None]
    src = torch.full((100, 100), 5)
    src[:, ::2] = 4
    trained = words.train().pool(table, src, src == 0)[0].squeeze(-1)
    assert (trained[:, ::2] == 4).all()
    assert set(trained[:, 1::2].unique().tolist()) == {1.0, 5.0}
    assert (trained[:, 1::2] == 1).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert (words.eval().pool(table, src, src == 0)[0].squeeze(-1) == src).all()


def reversed_tags(n: int) -> tuple[list[tuple[list[int], list[int]]], Vocab]:
    """Sentences of random words, and for each word its class: what only who knows the next word can write."""
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, 40, (10 + i % 8,), generator=generator).tolist() for i in range(n)]
    return [(src, [4 + (7 * word) % 5 for word in src]) for src in sources], guided(Vocab(src=40, tgt=9))


@pytest.mark.parametrize("arch", ["transformer", "rnn"])
def test_tagging_is_learnt_with_the_guide(arch: str) -> None:
    """Monotonic: each output token belongs to the next word.."""
    pairs, vocab = reversed_tags(64)
    configs: dict[str, Choice] = {
        "transformer": TransformerConfig(**TRANSFORMER, share_embeddings="none", guide="words", cross_attention="none"),
        "rnn": RNNConfig(**RNN, attention="none", readout="none", guide="words"),
    }
    torch.manual_seed(1)
    model: Seq2Seq = plugins().registry.get("arch", arch).build(configs[arch], vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    batch = make_batch(pairs, vocab)
    for _ in range(25):
        optimizer.zero_grad()
        logits = model.project(model(*batch.inputs))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=vocab.pad)
        loss.backward()
        optimizer.step()
    accuracy = (logits.argmax(-1) == batch.tgt_out)[~batch.tgt_pad].float().mean().item()
    assert accuracy > 0.95
