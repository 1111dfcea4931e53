"""A line of brackets as EVALB reads it: words with their parts of speech, and the spans of its brackets.

The reading differs from a treebank's: `(S )` is a word without letters, `(S)` an empty bracket, a bracket may
be unclosed, and words that do not count are left out immediately, so that spans are in words that do.
"""

from __future__ import annotations

__all__ = ["Bracket", "Quote", "Sentence", "read_sentence"]

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2s_parsing.evalb.parameters import Parameters

QUOTATION = ("'", '"', "/")
UNCLOSED = "Bracketing is unbalanced (too many open bracket)"

# A bracket with its label and, if that is all that it holds, its word and end; an end; a bare word.
BLANK = r"\x20\t\n\v\f\r"
TOKEN = re.compile(rf"\(([^{BLANK}()]*)(?:[{BLANK}]+(?:([^{BLANK}()]+)[{BLANK}]*)?(\)))?|(\))|([^{BLANK}()]+)")


@dataclass(slots=True)
class Bracket:
    """A bracket and its span in words."""

    label: str
    start: int
    end: int = -1
    """-1 if it is not closed"""


@dataclass(slots=True)
class Quote:
    """A word that parsers may or may not take for a quotation mark, kept or left out."""

    tag: str
    word: str
    index: int
    """Words before it"""
    n_before: int
    """Brackets that open before it"""
    around: list[Bracket]


@dataclass(slots=True)
class Sentence:
    """One line."""

    length: int = 0
    """Words, left out or not, except those that do not count in a length"""
    tags: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    """In the order in which they open"""
    quotes: list[Quote] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    broken: bool = False
    """Whether the line cannot be read; EVALB itself ends there, or reads leftover data"""

    def put_back(self, quote: Quote) -> None:
        """Keep a word that was left out: what follows it moves, brackets around it grow."""
        self.tags.insert(quote.index, quote.tag)
        self.words.insert(quote.index, quote.word)
        for bracket in self.brackets[quote.n_before :]:
            bracket.start += 1
            bracket.end += 1
        for bracket in quote.around:
            bracket.end += 1
        behind = next(i for i, other in enumerate(self.quotes) if other is quote)
        for later in self.quotes[behind:]:
            later.index += 1


def read_sentence(line: str, parameters: Parameters) -> Sentence:
    """What counts in a line, and what is wrong with it."""
    sentence = Sentence()
    tags, words, brackets = sentence.tags, sentence.words, sentence.brackets
    deleted, no_length, quotes = parameters.deleted, parameters.deleted_for_length, parameters.quotes
    stack: list[Bracket] = []
    for label, word, leaf, close, atom in TOKEN.findall(line):
        if leaf:
            sentence.length += label not in no_length
            if label in quotes and word in QUOTATION:
                sentence.quotes.append(Quote(label, word, len(words), len(brackets), stack.copy()))
            if label not in deleted:
                tags.append(label)
                words.append(word)
        elif close:
            if not stack:
                return _break(sentence, "Bracketing unbalance (too many close bracket)")
            stack.pop().end = len(words)
        elif atom:
            return _break(sentence, f"Reading sentence: '{atom}' is no bracket and no only word of one")
        else:
            brackets.append(bracket := Bracket(label, len(words)))
            stack.append(bracket)
    if stack:
        sentence.faults.append(UNCLOSED)
    return sentence


def _break(sentence: Sentence, fault: str) -> Sentence:
    sentence.faults.append(fault)
    sentence.broken = True
    return sentence
