"""The verdict on a case, and how the end of a command is judged."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attack.sandbox import Ended

DOCUMENTED = (0, 1, 2, 75, 130, 141)
"""Exit codes of docs/commands.md"""


class Verdict(StrEnum):
    """The first three are as they should be."""

    FINE = "fine"
    """Exit code 0, and nothing else came of it than without the fault"""
    WARNED = "warned"
    """Exit code 0, and a warning says what was lost or left out"""
    REFUSED = "refused"
    """One line, and a documented exit code"""
    SILENT = "SILENT"
    """Exit code 0 without a word, and another result"""
    TRACEBACK = "TRACEBACK"
    """A traceback, a crash of the interpreter, several lines of error, or none"""
    HANG = "HANG"
    """Not ended within the time of a sandbox"""


BAD = (Verdict.SILENT, Verdict.TRACEBACK, Verdict.HANG)


class Case(NamedTuple):
    """One case and what came of it."""

    number: int
    verdict: Verdict
    what: str
    """The fault, and what was said of it"""
    n_faults: int = 1
    """Kills, for one, come several to a case."""


def judge(number: int, what: str, ended: Ended, is_same: bool) -> Case:
    """The verdict on a command after a fault; is_same: it left what it leaves without the fault."""
    verdict = _of_exit(ended)
    if verdict is Verdict.FINE and not is_same:
        verdict = Verdict.WARNED if "warning" in ended.err.lower() else Verdict.SILENT
    shown = ended.err.strip() if verdict in BAD else (ended.err.strip().splitlines() or [""])[-1]
    return Case(number, verdict, f"{what} -> {ended.code}: {shown[-3000:]}")


def worst(cases: Sequence[Case]) -> Case:
    """The worst of several verdicts on one case."""
    order = list(Verdict)
    return max(cases, key=lambda case: order.index(case.verdict))


def _of_exit(ended: Ended) -> Verdict:
    if ended.is_late:
        return Verdict.HANG
    if "Traceback" in ended.err or "a bug in s2s" in ended.err or ended.code not in DOCUMENTED:
        return Verdict.TRACEBACK
    if ended.code == 0:
        return Verdict.FINE
    complaints = [line for line in ended.err.splitlines() if line.startswith("s2s-") and ": error: " in line]
    usage = ended.code == 2 and not complaints and ended.command == "s2s-plugins" and "usage:" in ended.out
    return Verdict.REFUSED if usage or len(complaints) == 1 else Verdict.TRACEBACK
