"""Which mutants are tried: those with the smallest hashes; most of a sample stays the same when the code changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from mutation.mutants import Mutant, mutants

if TYPE_CHECKING:
    from pathlib import Path


class Candidate(NamedTuple):
    """A mutant of a module."""

    module: str
    """Its path, such as s2s/io/atomic.py"""
    mutant: Mutant
    text: str
    """The line that it changes"""
    number: int
    """Of equal ones"""

    @property
    def key(self) -> tuple[str, ...]:
        """What it is called in logs and in the list of equivalent ones; line numbers change too often."""
        return (self.module, self.text, self.mutant.before, self.mutant.after, str(self.number))

    def describe(self) -> str:
        """One line."""
        return f"{self.module}:{self.mutant.line}: {self.mutant.before}  ->  {self.mutant.after}    [{self.text}]"


def candidates(root: Path, paths: list[str], seed: int, only: str = "") -> list[Candidate]:
    """All mutants of the paths in the order of their hashes with the seed, or those of one file or line in theirs."""
    if only:
        module, _, line = only.partition(":")
        return [c for c in _of(root, module) if not line or c.mutant.line == int(line)]
    files = {f for path in paths for f in ([root / path] if path.endswith(".py") else (root / path).rglob("*.py"))}
    every = [c for file in sorted(files) for c in _of(root, str(file.relative_to(root)))]
    return sorted(every, key=lambda c: hashlib.sha256("|".join((str(seed), *c.key)).encode()).digest())


def _of(root: Path, module: str) -> list[Candidate]:
    source = (root / module).read_text()
    lines, seen, found = source.splitlines(), Counter[tuple[str, ...]](), []
    for mutant in mutants(source):
        text = " ".join(lines[mutant.line - 1].split())
        same = (text, mutant.before, mutant.after)
        found.append(Candidate(module, mutant, text, seen[same]))
        seen[same] += 1
    return found


def equivalent(file: Path) -> dict[tuple[str, ...], str]:
    """Mutants that change nothing that anybody could want tested, with the reason, from a file of columns."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]] if file.exists() else []
    return {tuple(row[:5]): row[5] for row in rows}
