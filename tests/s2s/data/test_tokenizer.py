"""What all tokenisers share."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, tokenizer_kind
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Pieces(Tokenizer):
    """Of two tokens beside the special ones."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def words(self, ids: Sequence[int]) -> list[int]:
        raise NotImplementedError


def test_a_tokenizer_is_identified_by_its_tokens_in_their_order() -> None:
    one = Pieces("<pad>", "<unk>", "<s>", "</s>", "ä", "b")
    assert one.size == 6
    assert one.identity == hashlib.sha256("<pad>\n<unk>\n<s>\n</s>\nä\nb".encode()).hexdigest()
    assert one.identity != Pieces("<pad>", "<unk>", "<s>", "</s>", "b", "ä").identity


def test_special_tokens_have_the_first_ids() -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    one = Pieces()
    assert (one.pad, one.unk, one.bos, one.eos) == (0, 1, 2, 3)


def test_a_tokenizer_without_sampling_says_so() -> None:
    with pytest.raises(ConfigError, match=r"task.subword_sampling=0.5: this tokeniser has one way to write a text"):
        Pieces().sampler(0.5)


def test_a_kind_is_built_by_its_name_or_refused_with_the_nearest() -> None:
    names = ["sentencepiece", "words"]
    registry: Any = SimpleNamespace(
        names=lambda group: names,
        absent_hint=lambda: " One is absent.",
        build_default=lambda group, name: (group, name),
    )
    assert tokenizer_kind("words", registry) == ("tokenizer", "words")
    with pytest.raises(ConfigError, match=r"task.subword=wods: no such tokeniser\..*words.* One is absent\."):
        tokenizer_kind("wods", registry)
    with pytest.raises(ConfigError, match=r"task.tgt=wods: no such tokeniser"):
        tokenizer_kind("wods", registry, "task.tgt")
