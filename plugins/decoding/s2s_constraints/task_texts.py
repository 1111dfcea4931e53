"""Texts for the outputs of one source, in the spelling of its task."""

from __future__ import annotations

__all__ = ["TaskTexts"]

from dataclasses import dataclass, replace

from s2s import DataError, Example, Task
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import symbols_of, token_symbols, without_blanks
from s2s_constraints.target_ids import target_ids


@dataclass(frozen=True)
class TaskTexts:
    """Prefixes and phrases from texts; raises DataError for those that cannot come out as they are."""

    task: Task
    source: Example
    """With the fields of its input"""
    spelling: Spelling
    """Of the task's tokens"""

    def prefixes(self, text: str) -> tuple[str, ...]:
        """The symbols with which an output begins, in each way to spell them.

        The last word is open, unless a blank follows it. A blank before the first word may be left out if the task
        shows the output all the same.
        """
        if self.spelling.tokenwise:
            return (token_symbols(self._ids(text)),)
        try:
            symbols = symbols_of(self.task.spell(text.rstrip()))
        except DataError:
            raise self._unknown(text) from None
        if not symbols.strip():
            raise self._without_tokens(text)
        if not self.spelling.continuing(symbols):
            raise self._unknown(text)
        closed = " " if text[-1:].isspace() else ""
        if symbols[0] == " " != text[0] and self._shows(symbols[1:]):
            return symbols + closed, symbols[1:] + closed
        return (symbols + closed,)

    def _shows(self, symbols: str) -> bool:
        """Whether the tokens that can spell this show the same as the first tokens of an output."""
        texts = self.spelling.texts
        ids = self.spelling.continuing(symbols)
        return all(symbols_of(self.task.detokenize([i], self.source.src).encode()) == texts[i] for i in ids)

    def phrase(self, text: str, *, whole: bool) -> Phrase:
        """A phrase, which counts only as whole words, or also within words."""
        tokens = tuple(self._ids(text.strip() or text))
        if self.spelling.tokenwise:
            return Phrase(token_symbols(tokens), tokens, tokens, whole=False)
        spaced = tokens if without_blanks(text.strip()[:1]) else tuple(self._ids(f" {text.strip()}"))
        symbols = "".join(self.spelling.texts[i] for i in tokens).strip(" ")
        if not symbols:
            raise self._without_tokens(text)
        return Phrase(symbols, tokens, spaced, whole)

    def _ids(self, text: str) -> list[int]:
        (ids,) = target_ids(self.task, [replace(self.source, tgt=text)])
        if not ids:
            raise self._without_tokens(text)
        if self.task.vocab.unk in ids:
            raise self._unknown(text)
        return ids

    def _without_tokens(self, text: str) -> DataError:
        name = self.task.config.name
        return DataError(f"{text!r} has no tokens in task={name}; leave it out of prefix, phrases and terms")

    def _unknown(self, text: str) -> DataError:
        return DataError(
            f"{text!r} has symbols that are not in the vocabulary of task={self.task.config.name}, and would not "
            "come out as it is; leave it out of prefix, phrases and terms"
        )
