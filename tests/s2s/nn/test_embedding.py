"""Embeddings and the softmax's matrix: which are shared, and what is looked up in them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from s2s.errors import ConfigError
from s2s.nn.embedding import Embeddings
from s2s.nn.words import SourceWords
from s2s.task import Vocab


@pytest.mark.parametrize(("sharing", "n_tables"), [("shared", 1), ("target", 2), ("none", 3)])
def test_shared_matrices_are_one(sharing: str, n_tables: int) -> None:
    vocab = Vocab(src=9, tgt=9, joint=True)
    embeddings = Embeddings(vocab, 4, sharing)  # type: ignore[arg-type]
    embeddings.init_weights()
    ids = torch.tensor([[4, 5]])
    assert len(list(embeddings.parameters())) == n_tables
    assert torch.equal(embeddings.source(ids), embeddings.target(ids)) == (sharing == "shared")
    is_target = torch.allclose(embeddings.logits(torch.eye(4)).T * 2, embeddings.target(torch.arange(9)))
    assert is_target == (sharing != "none")


@pytest.mark.parametrize("vocab", [Vocab(src=9, tgt=9), Vocab(src=9, tgt=8, joint=True)])
def test_sharing_without_a_joint_vocabulary_is_refused(vocab: Vocab) -> None:
    with pytest.raises(ConfigError, match="share_embeddings"):
        Embeddings(vocab, 4, "shared")


@pytest.mark.parametrize(("sharing", "rows"), [
    ("shared", {"decoder.shared": "tgt"}),
    ("target", {"decoder.src": "src", "decoder.tgt": "tgt"}),
    ("none", {"decoder.src": "src", "decoder.tgt": "tgt", "decoder.softmax": "tgt"}),
])  # fmt: skip
def test_every_matrix_has_rows_of_one_side(sharing: Any, rows: dict[str, str]) -> None:
    embeddings = Embeddings(Vocab(src=9, tgt=9, joint=True), 4, sharing)
    assert embeddings.vocab_rows("decoder") == rows
    assert {f"decoder.{name}" for name, _ in embeddings.named_parameters()} == set(rows)


def test_the_table_of_targets_is_what_they_are_looked_up_in() -> None:
    embeddings = Embeddings(Vocab(src=9, tgt=7), 4, "none")
    embeddings.init_weights()
    assert embeddings.target_table.shape == (7, 4)
    assert torch.equal(embeddings.target(torch.arange(7)), embeddings.target_table * 2)


def test_words_of_several_tokens_are_scaled_as_tokens_are() -> None:
    vocab = Vocab(src=9, tgt=7, word_begins=[i % 2 == 0 for i in range(9)])
    embeddings = Embeddings(vocab, 4, "none")
    embeddings.init_weights()
    src = torch.tensor([[4, 5, 6, vocab.eos], [8, vocab.eos, 0, 0]])
    words, pad = embeddings.source_words(SourceWords(vocab), src, src == 0)
    assert pad.tolist() == [[False, False, False], [False, False, True]]
    tokens = embeddings.source(src)
    torch.testing.assert_close(words[0], torch.stack([tokens[0, 0] + tokens[0, 1], tokens[0, 2], tokens[0, 3]]))
    torch.testing.assert_close(words[1, :2], tokens[1, :2])


def test_logits_have_a_bias_and_embeddings_no_scale() -> None:
    embeddings = Embeddings(Vocab(src=9, tgt=7), 4, "target", scaled=False, has_bias=True)
    embeddings.init_weights()
    assert torch.equal(embeddings.bias, torch.zeros(7))
    embeddings.bias.data = torch.arange(7.0)
    assert torch.equal(embeddings.target(torch.arange(7)), embeddings.tgt)
    assert torch.allclose(embeddings.logits(torch.eye(4)), embeddings.tgt.T + torch.arange(7.0))
    assert embeddings.vocab_rows("e") == {"e.src": "src", "e.tgt": "tgt", "e.bias": "tgt"}
