"""The constraint in real searches: whatever the model prefers, outputs are trees, or none where no tree fits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch

from harness.search_calls import find
from harness.tree_texts import sentences, small
from s2s.decoding import BeamConfig, GreedyConfig
from s2s.decoding.beam_search import BeamSearch, greedy
from s2s.task import Vocab
from s2s_parsing.linear import FORMS, MalformedError
from s2s_parsing.tree import Word, leaves
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from s2s_parsing.linear import Linear

every_form = pytest.mark.parametrize("form", [pytest.param(form(), id=name) for name, form in FORMS.items()])


@cache
def wild(vocab: tuple[int, int]) -> Transformer:
    """An untrained model that is sure of its choices."""
    torch.manual_seed(5)
    config = TransformerConfig(
        n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=64, n_heads=4, share_embeddings="none"
    )
    model = Transformer(config, Vocab(src=vocab[0], tgt=vocab[1])).eval()
    for parameter in model.parameters():
        parameter.data *= 1.5
    return model


N_WORDS = [1, 2, 5, 9, 24]
SEARCHES = {
    "greedy": greedy(GreedyConfig(max_len_a=1.0, max_len_b=9)),
    **{f"beam {n}": BeamSearch(BeamConfig(beam=n, alpha=0.3, max_len_a=1.0, max_len_b=9)) for n in (1, 4, 21)},
}


@every_form
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_every_search_finds_only_trees(form: Linear, search: BeamSearch) -> None:
    """All of the n best, of a model that knows nothing."""
    written = small(form)
    model, beam = wild((written.vocab.src, written.vocab.tgt)), search.config.beam
    found = find(search, model, *sentences(N_WORDS), written.vocab, written.constraint(6, 4), nbest=beam)
    for hypotheses, n_words in zip(found, N_WORDS, strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            assert len(leaves(written.tree(hypothesis.tokens, n_words))) == n_words


@every_form
def test_without_the_constraint_hardly_an_output_is_a_tree(form: Linear) -> None:
    written, n_trees = small(form), 0
    model = wild((written.vocab.src, written.vocab.tgt))
    found = find(SEARCHES["beam 21"], model, *sentences(N_WORDS), written.vocab)
    for hypotheses, n_words in zip(found, N_WORDS, strict=True):
        try:
            n_trees += bool(written.tree(hypotheses[0].tokens, n_words))
        except MalformedError:
            continue
    assert n_trees <= 1


@every_form
def test_a_limit_too_short_for_the_words_gives_no_output_and_one_that_just_fits_a_flat_tree(form: Linear) -> None:
    written = small(form)
    model = wild((written.vocab.src, written.vocab.tgt))
    search = BeamSearch(BeamConfig(beam=4, max_len_a=0.0, max_len_b=5))
    fits, too_long = find(search, model, *sentences([5, 6]), written.vocab, written.constraint(6, 4), nbest=4)
    assert too_long == []
    assert all(isinstance(child, Word) for child in written.tree(fits[0].tokens, 5).children)
