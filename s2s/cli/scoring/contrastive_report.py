"""The report of s2s-score contrastive=FILE."""

from __future__ import annotations

__all__ = ["contrastive_json", "contrastive_lines"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.cli.scoring.contrastive import Accuracies, Accuracy, JudgedCase


def contrastive_lines(accuracies: Accuracies, cases: Sequence[JudgedCase]) -> Iterator[str]:
    """Lines for a terminal: one for each of `cases`, then the accuracy of each phenomenon and of all."""
    if cases:
        yield "  case      ref  contrastive"
    for number, case in enumerate(cases, 1):
        yield f"  {number:4}  {case.ref:7.2f}  {max(case.contrastive):11.2f}  {'right' if case.is_right else 'wrong'}"
    width = max(map(len, ["all", *accuracies.phenomena]))
    for name, one in [*accuracies.phenomena.items(), ("all", accuracies.total)]:
        low, high = one.interval
        yield f"  {name:{width}}  {one.value:6.2f}  [{low:.2f}, {high:.2f}]  {one.n_right:,} of {one.n:,}"


def contrastive_json(accuracies: Accuracies, cases: Sequence[JudgedCase]) -> dict[str, Any]:
    """The same as an object."""
    phenomena = {name: _fields(one) for name, one in accuracies.phenomena.items()}
    judged = [{"ref": c.ref, "contrastive": c.contrastive, "right": c.is_right} for c in cases]
    all_cases = {"name": "accuracy", **_fields(accuracies.total), "phenomena": phenomena}
    return {**all_cases, "cases": judged} if cases else all_cases


def _fields(accuracy: Accuracy) -> dict[str, Any]:
    low, high = accuracy.interval
    return {"value": accuracy.value, "low": low, "high": high, "n_right": accuracy.n_right, "n": accuracy.n}
