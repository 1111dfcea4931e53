"""Constraints set by a user: min_len, no_repeat_ngram_size, bad_words, and the prefix and phrases of an output.

No torch at import.
"""

from __future__ import annotations

__all__ = ["ConstraintOptions", "s2s_output_constraints", "s2s_register", "s2s_sentence_constraint"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import Registry, hookimpl
from s2s.config import GenerateConfig, at_least, check_ranges

if TYPE_CHECKING:
    from s2s import Task
    from s2s.decoding import FixedWidthConstraint
    from s2s.generation import Input
    from s2s_constraints.lexical import LexicalConstraint


@dataclass(kw_only=True)
class ConstraintOptions(GenerateConfig):
    """What every output must and must not contain."""

    min_len: int = 0
    """Minimum length of an output in tokens, without eos, if its length limit allows as many."""
    no_repeat_ngram_size: int = 0
    """No n-gram of this many tokens occurs twice in the last 512 tokens of an output; 0: no limit."""
    bad_words: list[str] = field(default_factory=list)
    """Texts whose token sequences, as the task encodes them, never occur in an output: bad_words=[word,"two words"]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("", self, min_len=at_least(0), no_repeat_ngram_size=at_least(0, 512))


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(ConstraintOptions)


@hookimpl
def s2s_output_constraints(config: ConstraintOptions, task: Task) -> list[FixedWidthConstraint]:
    """The constraints that the options set on every output."""
    from s2s_constraints.tokens import token_constraints

    return token_constraints(config, task)


@hookimpl(trylast=True)
def s2s_sentence_constraint(task: Task, given: Input) -> LexicalConstraint:
    """The constraint for the prefix and phrases of one output."""
    from s2s_constraints.lexical import lexical_constraint

    return lexical_constraint(task, given)
