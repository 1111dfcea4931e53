"""sentencepiece's normalisation nmt_nfkc, without the invisible characters that carry no meaning.

The rules are kept in every model that is trained with them, so that other programs that read it normalise alike. A rule
sees no context but its own characters; so those that are kept have rules together with the characters before them.
"""

from __future__ import annotations

__all__ = ["visible_normalizer"]

import struct
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import sentencepiece

from s2s.data import invisible
from s2s_sentencepiece.model_file import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BASE = "nmt_nfkc"
CHARSMAP = 2
"""Field of a normalizer_spec: the size of a trie in bytes, the trie, and the texts to which its entries refer"""
BLANK = "\u200b"
"""The zero width space, which nmt_nfkc makes a blank"""
STAND_INS = {
    character: chr(0xE000 + n)
    for n, character in enumerate(sorted({c for _, kept in invisible.KEPT for c in invisible.characters(kept)}))
}
"""For each kept character one of private use, of as many bytes: sentencepiece takes no rule that changes nothing"""


@cache
def visible_normalizer() -> sentencepiece.SentencePieceNormalizer:
    """The argument `normalizer` of a training; it takes two seconds to make, once in a process."""
    sentencepiece.set_min_log_level(2)
    base = dict(sentencepiece.SentencePieceNormalizer(rule_name=BASE).Decompile())
    rules = base | dict.fromkeys(invisible.characters(invisible.IGNORABLE), "") | dict(_kept(base))
    spec = sentencepiece.SentencePieceNormalizer(norm_map=list(rules.items())).serialized_normalizer_spec()
    return sentencepiece.SentencePieceNormalizer(normalizer_spec=_without_stand_ins(spec))


def _kept(base: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Rules for each character that may stand before kept ones, and for each sequence of `base` that ends in one."""
    for before, kept in invisible.KEPT:
        ends = {character for character in invisible.characters(before) if unicodedata.category(character) != "Cn"}
        for text in [*ends, *(key for key in base if len(key) > 1 and key[-1] in ends)]:
            for character in invisible.characters(kept):
                yield text + character, base.get(text, text) + (" " if character == BLANK else STAND_INS[character])
    for picture in invisible.characters(invisible.PICTURES):
        yield f"{picture}\ufe0f\u200d", picture + STAND_INS["\ufe0f"] + STAND_INS["\u200d"]


def _without_stand_ins(spec: bytes) -> bytes:
    """A serialised normalizer_spec with the kept characters in place of their stand-ins."""
    charsmap = dict(fields_of(spec))[CHARSMAP]
    assert isinstance(charsmap, bytes)
    begin = 4 + struct.unpack_from("<I", charsmap)[0]
    texts = charsmap[begin:]
    for character, stand_in in STAND_INS.items():
        texts = texts.replace(stand_in.encode(), character.encode())
    return spec.replace(charsmap, charsmap[:begin] + texts)
