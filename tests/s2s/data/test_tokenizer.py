"""What all tokenisers share."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from s2s.compose import compose, to_yaml
from s2s.config.data import PrepareConfig
from s2s.data.tokenizer import Tokenizer, tokenizer_kind
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins

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


def test_a_tokenizer_is_identified_by_its_tokens_in_their_order() -> None:
    one = Pieces("<pad>", "<unk>", "<s>", "</s>", "ä", "b")
    assert one.size == 6
    assert one.identity == hashlib.sha256("<pad>\n<unk>\n<s>\n</s>\nä\nb".encode()).hexdigest()
    assert one.identity != Pieces("<pad>", "<unk>", "<s>", "</s>", "b", "ä").identity


def test_special_tokens_have_the_first_ids() -> None:
    assert (Tokenizer.pad, Tokenizer.unk, Tokenizer.bos, Tokenizer.eos) == (0, 1, 2, 3)
    one = Pieces()
    assert (one.pad, one.unk, one.bos, one.eos) == (0, 1, 2, 3)


def test_a_tokenizer_without_sampling_says_so() -> None:
    with pytest.raises(ConfigError, match=r"task.subword_sampling=0.5: this tokeniser has one way to write a text"):
        Pieces().sampler(0.5)


def test_a_kind_is_built_by_its_name_or_refused_with_the_nearest() -> None:
    registry = load_plugins().registry
    kind: Any = tokenizer_kind("unigram", registry)
    assert (kind.algorithm, kind.config.byte_fallback) == ("unigram", None)
    with pytest.raises(ConfigError, match=r"^task.subword=unigrm: no such tokenizer\. Did you mean 'unigram'\?"):
        tokenizer_kind("unigrm", registry)
    with pytest.raises(ConfigError, match=r"^task.tgt=wods: no such tokenizer"):
        tokenizer_kind("wods", registry, "task.tgt")


def test_a_kind_has_options_of_its_own_and_those_of_the_task() -> None:
    registry = load_plugins().registry
    kind: Any = tokenizer_kind({"name": "bpe", "byte_fallback": True}, registry, defaults={"character_coverage": 0.99})
    assert (kind.config.byte_fallback, kind.config.character_coverage) == (True, 0.99)
    kind = tokenizer_kind({"name": "bpe", "character_coverage": 0.98}, registry, defaults={"character_coverage": 0.99})
    assert kind.config.character_coverage == 0.98


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            {"name": "bpe", "byte_falback": True},
            r"task.subword.byte_falback: no such option. Did you mean 'byte_fallback'",
        ),
        ({"name": "bpe", "byte_fallback": 3}, r"task.subword.byte_fallback=3: expected bool"),
        ({"byte_fallback": True}, r"task.subword={byte_fallback: true}: give a name, or a mapping with a name"),
        (7, r"task.subword=7: give a name"),
        ({"name": "bpe", "character_coverage": 1.5}, r"task.character_coverage=1.5 must lie between 0.98"),
        ({"name": "characters", "character_coverage": 0.99}, r"task.subword.character_coverage: no such option"),
    ],
    ids=str,
)
def test_a_wrong_choice_says_what_to_give(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        tokenizer_kind(value, load_plugins().registry)


def test_an_option_can_be_added_to_the_name_that_is_chosen() -> None:
    arguments = ["task=translation", "task.subword.byte_fallback=true"]
    composed = compose(PrepareConfig, arguments, load_plugins())
    assert composed.config.task.subword == {"name": "bpe", "byte_fallback": True}  # type: ignore[attr-defined]
    assert "subword: {name: bpe, byte_fallback: true}" in to_yaml(composed.config)
    arguments = ["task=translation", "task.subword=unigram", "task.subword.symbols=[<BT>]"]
    composed = compose(PrepareConfig, arguments, load_plugins())
    assert composed.config.task.subword == {"name": "unigram", "symbols": ["<BT>"]}  # type: ignore[attr-defined]


def test_a_symbol_has_an_id_or_is_refused() -> None:
    one = Pieces("<pad>", "<unk>", "<s>", "</s>", "<2de>")
    one.path = Path("x")
    assert one.id_of("<2de>") == 4
    with pytest.raises(DataError, match=r"x: no token '<2fr>'; name it when the vocabulary is learnt"):
        one.id_of("<2fr>")


def test_each_token_adds_what_the_text_of_its_prefix_has_more() -> None:
    class Joined(Pieces):
        def decode(self, ids: Sequence[int]) -> str:
            return "".join(self.pieces[i] for i in ids)

    one = Joined("<pad>", "<unk>", "<s>", "</s>", "a", " b", "c ", "d")
    assert one.decoded_offsets([4, 5, 6, 7]) == [(0, 1), (1, 3), (3, 5), (5, 6)]
