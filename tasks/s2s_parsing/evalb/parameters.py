"""EVALB's parameters: its two usual files as they are meant, and custom files in the same format."""

from __future__ import annotations

__all__ = ["COLLINS", "NAMED", "NEW", "Parameters", "find_parameters", "read_parameters"]

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from s2s import DataError, did_you_mean
from s2s.data import read_lines

Pairs = frozenset[tuple[str, str]]

NUMBERS = ("DEBUG", "MAX_ERROR", "CUTOFF_LEN", "LABELED")
"""Keywords with a number; DEBUG sets how much EVALB prints, and does not change any figure."""
LABELS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
PAIRS = ("EQ_LABEL", "EQ_WORD")


@dataclass(frozen=True)
class Parameters:
    """What is ignored, and what counts as equal."""

    name: str
    """Name of a known set, or of a file followed by the beginning of its sha256."""
    cutoff: int = 40
    """Longest sentence in the second summary."""
    max_error: int = 10
    """EVALB gives up at the second error beyond this."""
    labelled: bool = True
    """Whether brackets must agree in their labels."""
    deleted: frozenset[str] = frozenset()
    """Parts of speech that are ignored with their words, and labels of brackets that do not count."""
    deleted_for_length: frozenset[str] = frozenset()
    """Parts of speech that do not count in a sentence's length."""
    quotes: frozenset[str] = frozenset()
    """Parts of speech that parsers confuse at ' and ": such a word is kept if either side keeps it."""
    equal_labels: Pairs = frozenset()
    """Pairs of labels and parts of speech that count as equal, each in both orders."""
    equal_words: Pairs = frozenset()
    """Pairs of words that count as equal, likewise."""


COLLINS = Parameters(
    name="COLLINS",
    deleted=frozenset(("TOP", "-NONE-", ",", ":", "``", "''", ".")),
    deleted_for_length=frozenset(("-NONE-",)),
    equal_labels=frozenset((("ADVP", "PRT"), ("PRT", "ADVP"))),
)
"""The setting of published scores (Collins 1997): no outermost bracket, no punctuation, ADVP = PRT."""

NEW = replace(
    COLLINS,
    name="new",
    deleted=COLLINS.deleted | {"S1", "?", "!"},
    quotes=frozenset(("``", "''", "POS", "NN", "CD", "VBZ", ":")),
)
"""As COLLINS, with S1 for an outermost bracket, ? and ! for parts of speech, and quotation marks repaired."""

NAMED = {"collins": COLLINS, "new": NEW}


def find_parameters(name: str) -> Parameters:
    """The set of this name, ignoring case and an extension .prm, or else a file."""
    path = Path(name).expanduser()
    if path.is_file():
        return read_parameters(path)
    named = NAMED.get(name.lower().removesuffix(".prm"))
    if named is None:
        hint = did_you_mean(name.lower(), NAMED)
        raise DataError(f"{name}: neither a parameter file nor the name of a known set.{hint}")
    return named


def read_parameters(path: Path) -> Parameters:
    """Read a file in EVALB's format: a keyword and its value on each line, comments after #."""
    numbers: dict[str, int] = {}
    labels = {keyword: set[str]() for keyword in LABELS}
    pairs = {keyword: set[tuple[str, str]]() for keyword in PAIRS}
    for number, line in enumerate(read_lines(path), 1):
        keyword, *values = line.split() or ["#"]
        if keyword.startswith("#"):
            continue
        where = f"{path}:{number}: {keyword}"
        if keyword in NUMBERS:
            numbers[keyword] = _number(where, values)
        elif keyword in LABELS:
            labels[keyword].add(*_exactly(1, where, values))
        elif keyword in PAIRS:
            first, second = _exactly(2, where, values)
            pairs[keyword] |= {(first, second), (second, first)}
        else:
            raise DataError(f"{where}: no such parameter.{did_you_mean(keyword, [*NUMBERS, *LABELS, *PAIRS])}")
    return _named(
        path,
        Parameters(
            name="",
            cutoff=numbers.get("CUTOFF_LEN", Parameters.cutoff),
            max_error=numbers.get("MAX_ERROR", Parameters.max_error),
            labelled=bool(numbers.get("LABELED", Parameters.labelled)),
            deleted=frozenset(labels["DELETE_LABEL"]),
            deleted_for_length=frozenset(labels["DELETE_LABEL_FOR_LENGTH"]),
            quotes=frozenset(labels["QUOTE_LABEL"]),
            equal_labels=frozenset(pairs["EQ_LABEL"]),
            equal_words=frozenset(pairs["EQ_WORD"]),
        ),
    )


def _exactly(n: int, where: str, values: list[str]) -> list[str]:
    if len(values) != n:
        raise DataError(f"{where} {' '.join(values)}: expected {'two labels' if n == 2 else 'one label'}")
    return values


def _number(where: str, values: list[str]) -> int:
    if len(values) != 1 or not values[0].isdecimal():
        raise DataError(f"{where} {' '.join(values)}: expected a number from 0 up")
    return int(values[0])


def _named(path: Path, parameters: Parameters) -> Parameters:
    """The same named after an equal known set, or after the file with a hash of its contents."""
    for known in NAMED.values():
        if replace(parameters, name=known.name) == known:
            return known
    settings = [f"{key}={sorted(v) if isinstance(v, frozenset) else v}" for key, v in asdict(parameters).items()]
    return replace(parameters, name=f"{path.stem}.{hashlib.sha256(repr(settings).encode()).hexdigest()[:8]}")
