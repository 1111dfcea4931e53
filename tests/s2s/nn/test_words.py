"""Words from their parts, against loops over sentences."""

from __future__ import annotations

import math

import pytest
import torch

from s2s.nn.words import SourceWords
from s2s.task import Vocab

BEGINS = [i % 2 == 0 and i < 12 for i in range(14)]  # even ids begin words, odd ones continue them
VOCAB = Vocab(src=14, tgt=5, word_begins=BEGINS, labels=range(12, 14))
"""12 and 13 are labels"""
PAD, EOS = VOCAB.pad, VOCAB.eos
ROWS = [[4, 5, 7, 12, 6, 13, EOS], [5, 8, 9, EOS], [EOS], [13, 4, EOS]]
"""A row that begins with a continuation, one without a word, one that begins with a label"""


def words_of(row: list[int]) -> list[tuple[list[int], int]]:
    """Tokens and label (-1: none) of each word; a label that no word precedes counts for none."""
    words: list[tuple[list[int], int]] = []
    for i, token in enumerate(row):
        if token in VOCAB.labels and i:
            words[-1] = (words[-1][0], token - 12)
        elif i == 0 or token == EOS or BEGINS[token]:
            words.append(([token], -1))
        else:
            words[-1][0].append(token)
    return words


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, ROWS)) + 1
    src = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in ROWS[:3]])
    pad = torch.tensor([[i >= len(row) for i in range(longest)] for row in ROWS[:3]])
    return src, pad


def test_a_word_is_its_first_token_and_the_others_over_the_root_of_their_number(
    batch: tuple[torch.Tensor, torch.Tensor],
) -> None:
    torch.manual_seed(0)
    embedding = torch.randn(14, 3)
    words, pad = SourceWords(VOCAB).pool(embedding, *batch)
    for row, tokens in enumerate(ROWS[:3]):
        expected = words_of(tokens)
        assert (~pad[row]).sum() == len(expected)
        for i, (parts, _) in enumerate(expected):
            vector = embedding[parts[0]].clone()
            for part in parts[1:]:
                vector += embedding[part] / math.sqrt(len(parts) - 1)
            torch.testing.assert_close(words[row, i], vector)
        assert not words[row, len(expected) :].any()
        assert pad[row, len(expected) :].all()
    assert words.shape == (3, max(len(words_of(row)) for row in ROWS[:3]), 3)


def test_labels_are_those_of_their_words(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    labels = SourceWords(VOCAB).labels(*batch)
    expected = [[label for _, label in words_of(row)] for row in ROWS[:3]]
    width = labels.size(1)
    assert labels.tolist() == [[*row, *[-1] * (width - len(row))] for row in expected]


def test_states_and_weights_are_those_of_first_tokens(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    src, pad = batch
    plain = torch.where(src >= 12, 5, src)  # without labels, which no model reads
    words = SourceWords(VOCAB)
    hidden = torch.randn(*src.shape, 2)
    states = words.states(hidden, plain, pad)
    weights = torch.rand(len(src), 4, states.size(1))
    spread = words.spread(weights, plain, pad)
    for row in range(len(src)):
        n = int((~pad[row]).sum())
        firsts = [i for i in range(n) if i == 0 or plain[row, i] == EOS or BEGINS[int(plain[row, i])]]
        assert words.begins_word(plain, pad)[row].nonzero().flatten().tolist() == firsts
        for i, place in enumerate(firsts):
            assert torch.equal(states[row, i], hidden[row, place])
            assert torch.equal(spread[row, :, place], weights[row, :, i])
        others = [i for i in range(src.size(1)) if i not in firsts]
        assert not spread[row][:, others].any()
        assert not states[row, len(firsts) :].any()


def test_a_batch_of_nothing_has_one_place() -> None:
    src = torch.zeros(2, 3, dtype=torch.long)
    words, pad = SourceWords(VOCAB).pool(torch.randn(14, 3), src, torch.ones(2, 3, dtype=torch.bool))
    assert words.shape == (2, 1, 3)
    assert pad.all()


def test_tokens_become_unknown_as_often_as_the_vocabulary_says_and_only_in_training() -> None:
    torch.manual_seed(0)
    vocab = Vocab(src=14, tgt=5, unknown=[0.0] * 6 + [0.25] + [1.0] + [0.0] * 6)
    src = torch.tensor([[4, 6, 7, 3]]).expand(4000, -1)
    embedding = torch.eye(14)
    words = SourceWords(vocab)
    read = words.pool(embedding, src, torch.zeros_like(src, dtype=torch.bool))[0].argmax(-1)
    shares = (read == vocab.unk).double().mean(0).tolist()
    assert shares == [0.0, pytest.approx(0.25, abs=0.03), 1.0, 0.0]
    assert torch.equal(words.eval().pool(embedding, src, torch.zeros_like(src, dtype=torch.bool))[0].argmax(-1), src)


def test_only_tokens_that_may_become_unknown_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is drawn: 0 may be."""
    monkeypatch.setattr(torch, "rand", torch.zeros)
    vocab = Vocab(src=14, tgt=5, unknown=[0.0] * 6 + [1e-3] + [0.0] * 7)
    src = torch.tensor([[4, 6, 5, EOS]])
    read = SourceWords(vocab).pool(torch.eye(14), src, src == PAD)[0].argmax(-1)
    assert read.tolist() == [[4, vocab.unk, 5, EOS]]


def test_ids_on_both_sides_of_the_labels_are_words() -> None:
    vocab = Vocab(src=14, tgt=5, labels=range(6, 8))
    src = torch.tensor([[5, 6, 8, 7, EOS]])
    words = SourceWords(vocab)
    read, pad = words.pool(torch.eye(14), src, src == PAD)
    assert read.argmax(-1).tolist() == [[5, 8, EOS]]
    assert not pad.any()
