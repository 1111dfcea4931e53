"""Symbols around texts that depend on an example's fields, such as the codes of its languages."""

from __future__ import annotations

__all__ = ["Marks"]

from typing import TYPE_CHECKING, Any

from s2s.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from s2s.data.tokenizer import Tokenizer


class Marks:
    """What stands around the ids of a source, beside what its tokeniser puts there."""

    def __init__(
        self,
        task: str,
        symbols: Callable[[], Sequence[str]],
        tokenizer: Tokenizer,
        eos: int,
        *,
        before: Sequence[str],
        behind: Sequence[str],
    ) -> None:
        """task: its name, for errors. symbols: all that a mark may be, asked for when there is one. eos: what ends the
        text of a source that has marks behind it."""
        self.task, self.symbols, self.tokenizer, self.eos = task, symbols, tokenizer, eos
        self.before, self.behind = before, behind

    @property
    def n_before(self) -> int:
        """How many tokens stand before every text."""
        return len(self.tokenizer.before) + len(self.before)

    @property
    def n_behind(self) -> int:
        """How many tokens stand behind every text."""
        return len(self.tokenizer.after) + (1 + len(self.behind) if self.behind else 0)

    def around(self, ids: Sequence[int], fields: Mapping[str, Any]) -> list[int]:
        """The ids of a text between those that its source has around it; raises DataError for an unknown mark."""
        before, behind = (self.ids(marks, fields, self.tokenizer) for marks in (self.before, self.behind))
        end = [self.eos, *behind] if behind else []
        return [*self.tokenizer.before, *before, *ids, *self.tokenizer.after, *end]

    def cut(self, ids: Sequence[int], most: int) -> list[int]:
        """Source ids without the last ones of their text, until at most `most` are left."""
        behind = ids[len(ids) - self.n_behind :]
        return list(ids) if len(ids) <= most else [*ids[: max(most - len(behind), 0)], *behind]

    def ids(self, marks: Sequence[str], fields: Mapping[str, Any], tokenizer: Tokenizer) -> list[int]:
        """Ids of marks with these fields; raises DataError for one that is no symbol."""
        if not marks:
            return []
        try:
            known, names = self.symbols(), [mark.format(**fields) for mark in marks]
        except KeyError as error:
            raise DataError(f"{error.args[0]} is missing: task={self.task} reads it of every input") from None
        for name in names:
            if name not in known:
                raise DataError(f"{name}: task={self.task} has no such mark.{did_you_mean(name, known)}")
        return [tokenizer.id_of(name) for name in names]
