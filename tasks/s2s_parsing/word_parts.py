"""Source words as their parts: the word itself, if it is frequent, then prefixes, suffixes, trigrams and its shape.

The parts are hashed into a fixed number of ids, so that every word has parts: an unknown one is represented by them.
"""

from __future__ import annotations

__all__ = ["WordParts", "count_words", "load_words", "save_words"]

import hashlib
import json
from collections import Counter
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

from s2s import DataError
from s2s.data import Tokenizer, missing_file_error
from s2s.io import write_file
from s2s_parsing.source_encoder import words_of
from s2s_parsing.styles import mark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
N_BUCKETS = 8192
"""Number of ids of hashed parts"""
AFFIX = 4
"""Longest prefix and suffix"""
RARE = 2
"""Words that occur less often in the training text are unknown"""
UNKNOWN = 0.25
"""A training token of a word with n occurrences becomes unknown with probability 0.25 / (0.25 + n) (Kiperwasser and
Goldberg, 2016)"""


class WordParts:
    """Turns words into ids: for each word first its own id or unk, then those of its parts.

    The sentence's annotation style is one more part of each of its words, so that its embedding is added to all of them
    (treebank embeddings, Stymne et al., 2018).
    """

    ends: Sequence[int] = ()

    def __init__(
        self,
        counts: Mapping[str, int],
        n_buckets: int = N_BUCKETS,
        labels: Sequence[str] = (),
        styles: Sequence[str] = (),
    ) -> None:
        self.counts, self.n_buckets, self.styles = counts, n_buckets, styles
        self.pieces = [
            *SPECIAL,
            *counts,
            *(f"<part {i}>" for i in range(n_buckets)),
            *(f"<style {name}>" for name in styles),
            *(f"<is {label}>" for label in labels),
        ]
        self.labels = {label: i for i, label in enumerate(labels, self.size - len(labels))}
        """Labels of words, with their ids"""
        first_style = self.size - len(labels) - len(styles)
        self._style_ids = {mark_of(name): [i] for i, name in enumerate(styles, first_style)}
        self.ids = {word: i for i, word in enumerate(counts, len(SPECIAL))}
        first_bucket = len(SPECIAL) + len(counts)
        self.word_begins = [i == Tokenizer.unk or len(SPECIAL) <= i < first_bucket for i in range(len(self.pieces))]
        """By id, whether it is a word or unk, the first id of every word"""
        unknown = [0.0] * len(SPECIAL) + [UNKNOWN / (UNKNOWN + n) for n in counts.values()]
        self.unknown = unknown + [0.0] * (self.size - len(unknown))
        """By id, the probability that training replaces it with unk"""
        self._parts = lru_cache(maxsize=100_000)(self._hashed)

    @property
    def label_ids(self) -> range:
        """Ids of labels, which are the last."""
        return range(self.size - len(self.labels), self.size)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.pieces)

    @cached_property
    def identity(self) -> str:
        """A hash of everything that determines ids."""
        labels = [list(self.labels)] if self.labels else []
        styles = [{"styles": self.styles}] if self.styles else []
        return hashlib.sha256(json.dumps([self.counts, self.n_buckets, *labels, *styles]).encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line, without bos and eos; a line may begin with the mark of a style."""
        return [self._encoded(words_of(line)) for line in lines]

    def encode_labelled(self, words: Iterable[tuple[str, str]], mark: str = "") -> list[int]:
        """Ids of a sentence of (label, word) in a style: those of each word, then of its label if that is known."""
        style = self._style_ids.get(mark, [])
        return [i for label, word in words for i in (*self._parts(word), *style, *self._of_label(label))]

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids; unknown words cannot be recovered."""
        return " ".join(self.pieces[i] for i in ids if self.word_begins[i])

    def _encoded(self, words: Sequence[str]) -> list[int]:
        mark, *others = words or [""]
        if mark in self._style_ids:
            return self.encode_labelled((("", word) for word in others), mark)
        return [i for word in words for i in self._parts(word)]

    def _of_label(self, label: str) -> list[int]:
        return [self.labels[label]] if label in self.labels else []

    def _hashed(self, word: str) -> list[int]:
        first_bucket = len(SPECIAL) + len(self.counts)
        buckets = [first_bucket + crc32(part.encode(errors="surrogatepass")) % self.n_buckets for part in parts(word)]
        return [self.ids.get(word, Tokenizer.unk), *buckets]


def parts(word: str) -> list[str]:
    """Prefixes, suffixes and trigrams in lower case, and the shape, each named after its kind."""
    lower = word.lower()
    lengths = range(1, min(AFFIX, len(word)) + 1)
    delimited = f"<{lower}>"
    return [
        *(f"p{lower[:n]}" for n in lengths),
        *(f"s{lower[-n:]}" for n in lengths),
        *(f"t{delimited[i : i + 3]}" for i in range(len(delimited) - 2)),
        f"h{shape(word)}",
    ]


def shape(word: str) -> str:
    """Upper case, lower case, digit or other, runs collapsed: `Xx` for Rome, `d.d` for 3.5."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word occurs in the training sentences."""
    return Counter(word for line in lines for word in words_of(line))


def save_words(
    counts: Counter[str],
    path: Path,
    labels: Sequence[str] = (),
    n_buckets: int = N_BUCKETS,
    styles: Sequence[str] = (),
) -> None:
    """Write the frequent words, the labels that words have and the styles of sentences to a JSON file."""
    kept = sorted((word for word in counts if counts[word] >= RARE), key=lambda word: (-counts[word], word))
    written = {"n_buckets": n_buckets, "words": [[word, counts[word]] for word in kept]}
    written |= {"labels": list(labels)} if labels else {}
    written |= {"styles": list(styles)} if styles else {}
    write_file(path, json.dumps(written, ensure_ascii=False).encode(errors="surrogatepass") + b"\n")


def load_words(path: Path) -> WordParts:
    """Read words, labels and styles from a file; raises DataError if it is damaged."""
    try:
        written = json.loads(path.read_bytes().decode(errors="surrogatepass"))
        counts = {str(word): int(n) for word, n in written["words"]}
        labels, styles = ([str(name) for name in written.get(key, ())] for key in ("labels", "styles"))
        return WordParts(counts, int(written["n_buckets"]), labels, styles)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not the words of this task ({error}); prepare again") from None
