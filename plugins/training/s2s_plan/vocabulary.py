"""The vocabulary of a recipe: words of a closed set, characters of single words, or subwords in a possible number."""

from __future__ import annotations

__all__ = ["Vocabulary", "choose_vocabulary"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.compose import flatten
from s2s_plan.plan import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_plan.fingerprint import Fingerprint, Side
    from s2s_plan.situation import Situation

N_SPECIAL = 4
MOST_CLOSED = 1000
"""Types of a closed set"""
CLOSED = 0.0005
"""Share of unseen words up to which a set is closed"""
SHORT = 4
"""Words of a median sentence up to which it may be spelt in characters, if the other side is single words"""
LARGEST = 32_000
RESERVE = 16
"""Tokens for symbols of the task, such as one between sentences of a document"""
ALPHABET = 200
"""Characters of a language with an alphabet; the subwords of one with more come on top of the others"""


class Vocabulary(NamedTuple):
    """Tokens, and about how many there are."""

    size: int
    decisions: Sequence[Decision]


def choose_vocabulary(situation: Situation) -> Vocabulary:
    """The vocabulary for a corpus; what the user has chosen stays."""
    corpus, option = situation.fingerprint, situation.vocab_size_option
    options = flatten(situation.config)
    algorithm, tokenizers = _algorithm(options.get("task.subword")), situation.tokenizers
    if option == "task.vocab_size" and algorithm == "bpe" and "task.subword" not in situation.explicit:
        if "whitespace" in tokenizers and _is_closed(corpus.src) and _is_closed(corpus.tgt):
            why = f"a closed set of {corpus.n_types:,} words"
            return Vocabulary(N_SPECIAL + corpus.n_types, [Decision("task.subword", "whitespace", why)])
        if "characters" in tokenizers and _spells_words(corpus):
            why = "single words, whose parts are characters"
            return Vocabulary(N_SPECIAL + corpus.n_symbols, [Decision("task.subword", "characters", why)])
    wanted = _n_subwords(corpus)
    if option == "task.vocab_size":
        sizes = _by_side(option, wanted, corpus, algorithm, joint=options.get("task.joint", False))
    else:  # of sources alone
        sizes = {option: _possible(wanted, corpus.src.n_symbols, corpus.src.n_types, algorithm)} if option else {}
    why, source = f"{corpus.tgt.n_words:,} target words", "after Gowda and May, 2020, and Este1le/hpo_nmt"
    decisions = [Decision(key, size, why, source) for key, size in sizes.items() if corpus.from_files]
    return Vocabulary(max(sizes.values(), default=wanted), decisions)


def _algorithm(subword: Any) -> str:
    return str(subword.get("name")) if isinstance(subword, Mapping) else str(subword)


def _by_side(option: str, wanted: int, corpus: Fingerprint, algorithm: str, *, joint: bool) -> dict[str, int]:
    """Option -> size: one for both sides, unless two vocabularies cannot have the same size."""
    if joint:
        return {option: _possible(wanted, corpus.n_symbols, corpus.n_types, algorithm)}
    sides = {"src": corpus.src, "tgt": corpus.tgt}
    sizes = {name: _possible(wanted, side.n_symbols, side.n_types, algorithm) for name, side in sides.items()}
    if sizes["src"] == sizes["tgt"]:
        return {option: sizes["src"]}
    return {f"task.{name}_vocab_size": size for name, size in sizes.items()}


def _is_closed(side: Side) -> bool:
    """Whether all words of this side are known: no more types are to be expected."""
    return side.n_types <= MOST_CLOSED and side.unseen <= CLOSED


def _spells_words(corpus: Fingerprint) -> bool:
    """Whether a side whose words are no closed set is single words, and none is text."""
    medians = [side.lengths[0] for side in (corpus.src, corpus.tgt) if not _is_closed(side)]
    return bool(medians) and min(medians) <= 1 and max(medians) <= SHORT


def _n_subwords(corpus: Fingerprint) -> int:
    """4,000 for 500,000 words, times 2.5 for ten times as many; not more than there are types."""
    n = 4000 * (max(corpus.tgt.n_words, 1) / 500_000) ** 0.4
    n = min(n, LARGEST, max(corpus.src.n_types + corpus.tgt.n_types, ALPHABET))
    n = round(n / 500) * 500 if n >= 1000 else max(round(n / 100) * 100, ALPHABET)
    return max(min(n + min(max(corpus.n_symbols - ALPHABET, 0), n), LARGEST), n)


def _possible(wanted: int, n_symbols: int, n_types: int, algorithm: str) -> int:
    """The number nearest to the wanted one that sentencepiece can learn: a token for each character, and more.

    With byte-pair encoding, every word can become a token. How many there can be by the unigram model depends on what
    repeats; a vocabulary of words has no characters.
    """
    if not n_symbols:  # in a plan of an earlier version
        return wanted
    if algorithm == "word":
        return min(wanted, N_SPECIAL + n_types)
    least, more = N_SPECIAL + 1 + n_symbols, n_types // 4 if algorithm == "unigram" else n_types
    return max(min(wanted, least + more), least + min(more, RESERVE))
