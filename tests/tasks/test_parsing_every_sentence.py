"""5,000 real sentences of every kind, up to 257 words long: each gets a tree of exactly its words."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest
import torch

from harness.folders import DATA
from harness.generators import generator_of
from s2s.config import GenerateConfig
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s_parsing import ParsingConfig
from s2s_parsing.source_encoder import words_of
from s2s_parsing.task import Parsing, read_tree
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.treebank import Cleaner, read_treebank
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ["craft/test", "genia/test", "gum/test", "wsj_nltk_sample/test", "craft/dev"]
N_SENTENCES = 5000


def trees() -> list[Tree]:
    files = [DATA / "treebanks" / f"{part}.clean.mrg" for part in PARTS]
    return list(
        islice((t for t in read_treebank(files, Cleaner(Counter()), "error") if isinstance(t, Tree)), N_SENTENCES)
    )


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there")
def test_every_one_of_5000_sentences_gets_a_tree_of_its_words(tmp_path: Path) -> None:
    gold = trees()
    sentences = [" ".join(leaf.word for leaf in leaves(tree)) for tree in gold]
    assert max(map(len, map(words_of, sentences))) == 257
    (tmp_path / "train.mrg").write_text("".join(f"{tree}\n" for tree in gold))
    config = ParsingConfig(name="parsing", train=str(tmp_path / "train.mrg"), src_vocab_size=1000)
    task = Parsing(config)
    task.learn(tmp_path)
    torch.manual_seed(1)
    size = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 16, "d_ff": 16, "n_heads": 2}
    model = Transformer(TransformerConfig(**size, share_embeddings="none"), task.vocab).eval()
    search = BeamSearch(BeamConfig(beam=2, max_len_a=0.0, max_len_b=320))
    outputs = generator_of(model, task, search, GenerateConfig())(sentences)
    for sentence, output in zip(sentences, outputs, strict=True):
        assert [leaf.word for leaf in leaves(read_tree(output.hyp))] == words_of(sentence)
    assert not +task.counts, "and none was mended"
